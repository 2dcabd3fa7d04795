// Plain JavaScript, without `await using`.
import { Lockkeeper } from "lockkeeper";
import { Redlock } from "lockkeeper/redlock";

const client = new Lockkeeper({ endpoints: process.env.ENDPOINT });
const lock = await client.lock("reports");
try {
  console.log(lock.name, await client.tryLock("reports"));
  await new Redlock(client).using(["other"], 1_000, async (signal) => console.log(signal.aborted));
} finally {
  await lock.release();
  await client.close();
}
