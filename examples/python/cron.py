r"""A cron job on several nodes: one of them runs it, and the others skip.

Every node has the same line in its crontab. The name contains the date, so it is one run:

    0 3 * * *  python cron.py "nightly-report-$(date +\%F)"

The lock is not released after the job. It expires after an hour, so that a node whose clock is
late skips as well. If the node dies, nobody repeats the run.
"""

import os
import sys

import lockkeeper

run = sys.argv[1]
client = lockkeeper.Client(os.environ["LOCKKEEPER_SERVER"])
if client.try_acquire(run, lease=3600):
    print("running", run)
else:
    print("skipped", run)
client.close()
