// An idempotent consumer: an order that is delivered twice is charged once.
//
//     node consumer.js order-17
//
// The row tells that an order was charged. The lock prevents two consumers from both finding no
// row.
import { setTimeout as sleep } from "node:timers/promises";

import { Lockkeeper } from "lockkeeper";
import pg from "pg";

const order = process.argv[2];
const db = new pg.Client(process.env.DATABASE_URL);
await db.connect();
const client = new Lockkeeper({ endpoints: process.env.LOCKKEEPER_SERVER });
await client.request(`charge:${order}`, async () => {
  const found = await db.query("SELECT 1 FROM charges WHERE order_id = $1", [order]);
  if (found.rowCount > 0) {
    console.log(order, "was charged before");
    return;
  }
  console.log("charging", order);
  await sleep(500);
  await db.query("INSERT INTO charges VALUES ($1)", [order]);
});
await client.close();
await db.end();
