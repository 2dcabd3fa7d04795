"""An idempotent consumer: an order that is delivered twice is charged once.

    python consumer.py order-17

The row tells that an order was charged. The lock prevents two consumers from both finding no row.
"""

import os
import sys
import time

import psycopg

import lockkeeper


def charge(order: str) -> None:
    print("charging", order, flush=True)
    time.sleep(0.5)


order = sys.argv[1]
with (
    lockkeeper.Client(os.environ["LOCKKEEPER_SERVER"]) as client,
    psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db,
    client.lock(f"charge:{order}"),
):
    if db.execute("SELECT 1 FROM charges WHERE order_id = %s", [order]).fetchone():
        print(order, "was charged before")
    else:
        charge(order)
        db.execute("INSERT INTO charges VALUES (%s)", [order])
