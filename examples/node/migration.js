// A migration under a lock: instances start at once, one migrates, and the others wait for it.
//
//     node migration.js
import { Lockkeeper } from "lockkeeper";
import pg from "pg";

const MIGRATION = "CREATE TABLE invoices AS SELECT 1 AS id, pg_sleep(1)::text AS note";

const db = new pg.Client(process.env.DATABASE_URL);
await db.connect();
const client = new Lockkeeper({ endpoints: process.env.LOCKKEEPER_SERVER });
await client.request("migration", async () => {
  const tables = await db.query("SELECT 1 FROM pg_tables WHERE tablename = 'invoices'");
  if (tables.rowCount === 0) {
    console.log("migrating");
    await db.query(MIGRATION);
  }
});
console.log("serving");
await client.close();
await db.end();
