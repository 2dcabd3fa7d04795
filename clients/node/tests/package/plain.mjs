// Plain JavaScript, without `await using`.
import { Lockkeeper } from "lockkeeper";

const client = new Lockkeeper({ endpoints: process.env.ENDPOINT });
const lock = await client.lock("reports");
try {
  console.log(lock.name, await client.tryLock("reports"));
} finally {
  await lock.release();
  await client.close();
}
