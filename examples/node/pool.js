// A bounded pool: five downloads here and any number in other processes, but three at a time.
//
//     node pool.js
import { setTimeout as sleep } from "node:timers/promises";

import { Lockkeeper } from "lockkeeper";

const client = new Lockkeeper({ endpoints: process.env.LOCKKEEPER_SERVER });
const pool = client.semaphore("downloads");
await pool.setPermits(3, { onlyIfAbsent: true });

async function download() {
  const permit = await pool.acquire();
  console.log("begin");
  await sleep(200);
  console.log("end");
  await permit.release();
}

await Promise.all([download(), download(), download(), download(), download()]);
await client.close();
