// The five-line example of the README, as a user of TypeScript writes it.
import { Lockkeeper, LockLostError } from "lockkeeper";

const endpoints = process.env["ENDPOINT"] ?? "";
await using client = new Lockkeeper({ endpoints });
{
  await using lock = await client.lock("reports");
  console.log(lock.fencingToken > 0n, lock.validFor > 0, await client.tryLock("reports"));
}
const again = await client.tryLock("reports", { mode: "fair" });
console.log(again?.name, again?.signal.reason instanceof LockLostError);
