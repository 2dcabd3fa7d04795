// A cron job on several nodes: one of them runs it, and the others skip.
//
// Every node has the same line in its crontab. The name contains the date, so it is one run:
//
//     0 3 * * *  node cron.js "nightly-report-$(date +\%F)"
//
// The lock is not released after the job. It expires after an hour, so that a node whose clock is
// late skips as well. If the node dies, nobody repeats the run.
import { Lockkeeper } from "lockkeeper";

const run = process.argv[2];
const client = new Lockkeeper({ endpoints: process.env.LOCKKEEPER_SERVER });
if (await client.calls.tryAcquire(run, { lease: 3_600_000 })) {
  console.log("running", run);
} else {
  console.log("skipped", run);
}
await client.close();
