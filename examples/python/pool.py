"""A bounded pool: five downloads here and any number in other processes, but three at a time.

Run it in several terminals: python pool.py
"""

import asyncio
import os

import lockkeeper.aio


async def download(client: lockkeeper.aio.Client) -> None:
    async with client.semaphore("downloads"):
        print("begin", flush=True)
        await asyncio.sleep(0.2)
        print("end", flush=True)


async def main() -> None:
    server = os.environ["LOCKKEEPER_SERVER"]
    async with lockkeeper.aio.Client(server) as client:
        await client.semaphore("downloads").set_permits(3, only_if_absent=True)
        await asyncio.gather(*(download(client) for _ in range(5)))


asyncio.run(main())
