// CommonJS, which Node.js 20.19 and later can load this package with.
const { Lockkeeper } = require("lockkeeper");

const client = new Lockkeeper({ endpoints: process.env.ENDPOINT });
client
  .request("reports", (lock) => lock.name)
  .then(console.log)
  .finally(() => client.close());
