"""A migration under a lock: instances start at once, one migrates, and the others wait for it.

Run it in several terminals: python migration.py
"""

import os

import psycopg

import lockkeeper

MIGRATION = "CREATE TABLE invoices AS SELECT 1 AS id, pg_sleep(1)::text AS note"

with (
    lockkeeper.Client(os.environ["LOCKKEEPER_SERVER"]) as client,
    psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db,
):
    with client.lock("migration"):
        if not db.execute("SELECT 1 FROM pg_tables WHERE tablename = 'invoices'").fetchone():
            print("migrating", flush=True)
            db.execute(MIGRATION)
    print("serving")
