"""Fencing a write in PostgreSQL: the row refuses a holder that lost its lock without noticing.

    python fencing.py

It holds the lock until it has read a line. Pause it meanwhile with Ctrl-Z, take its lock away with
`lockkeeper force-release report --reason test --yes`, write with another one, and continue it with
`fg`: its token is smaller than that of the row.
"""

import os
import sys

import psycopg

import lockkeeper

UPDATE = "UPDATE reports SET body = %(body)s, token = %(token)s WHERE id = 1 AND token <= %(token)s"

with (
    lockkeeper.Client(os.environ["LOCKKEEPER_SERVER"]) as client,
    psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db,
    client.lock("report") as lock,
):
    print("holds the lock with token", lock.fencing_token, flush=True)
    body = input()
    if db.execute(UPDATE, {"body": body, "token": lock.fencing_token}).rowcount == 0:
        sys.exit("refused: a newer holder has written")
    print("written")
