// Holds a lock until it is lost; see clients/new-user.
import { once } from "node:events";

import { LockkeeperError, Lockkeeper, LockLostError } from "lockkeeper";

const client = new Lockkeeper({ endpoints: process.argv[2] });
try {
  await client.request("report", async (lock) => {
    console.log("held", String(lock.fencingToken));
    await once(lock.signal, "abort");
    console.log("lost");
  });
} catch (error) {
  if (!(error instanceof LockkeeperError)) throw error;
  if (!(error instanceof LockLostError)) {
    console.error(`error: ${error.message}`);
    process.exitCode = 1;
  }
} finally {
  await client.close();
}
