// Fencing a write in PostgreSQL: the row refuses a holder that lost its lock without noticing.
//
//     node fencing.js
//
// It holds the lock until it has read a line. Pause it meanwhile with Ctrl-Z, take its lock away
// with `lockkeeper force-release report --reason test --yes`, write with another one, and continue
// it with `fg`: its token is smaller than that of the row.
import { createInterface } from "node:readline/promises";

import { Lockkeeper } from "lockkeeper";
import pg from "pg";

const UPDATE = "UPDATE reports SET body = $1, token = $2 WHERE id = 1 AND token <= $2";

const db = new pg.Client(process.env.DATABASE_URL);
await db.connect();
const client = new Lockkeeper({ endpoints: process.env.LOCKKEEPER_SERVER });
await client.request("report", async (lock) => {
  console.log("holds the lock with token", lock.fencingToken);
  const body = await createInterface(process.stdin).question("");
  const { rowCount } = await db.query(UPDATE, [body, lock.fencingToken]);
  if (rowCount === 0) throw new Error("refused: a newer holder has written");
  console.log("written");
});
await client.close();
await db.end();
