// The questions that people open the console with, each answered within two clicks, among 10,000 locks on a real Redis with a deadlock over two
// coordinators, a name of 200 characters and a lock of Redisson's.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { call, holdMany, plantDeadlock, plantRedissonHolder, row, until } from "./world.mjs";

const MANY = 10_000;
const LONG = `tenants/${"x".repeat(180)}/migration`;
const REDISSON = "8743c9c0-0795-4907-87fd-6c719a6b4586:41";

const FLEET = ["fleet.address=127.0.0.1", "session.secret=a secret of all the coordinators here"];

// The flags of coordinators that know each other.
const fleetOn = (redis, ...settings) => ["--store", redis.url, ...[...FLEET, ...settings].flatMap((it) => ["--set", it])];

const text = (locator) => locator.innerText();

// Builds the busy coordinator once, when the first question needs it.
let built = null;
function busy(world) {
  built ??= build(world);
  return built;
}

async function build(world) {
  const redis = await world.redis();
  const flags = fleetOn(redis, "admin.allow_force_release=true");
  const [coordinator, other] = [await world.coordinator(...flags), await world.coordinator(...flags)];
  await holdMany(coordinator, MANY);
  await plantRedissonHolder(redis, "redisson:job", REDISSON);
  await call(coordinator, "LockService/TryAcquire", { name: LONG, owner: "o", lease: "3600s" });
  await plantDeadlock(world, coordinator, other);
  const run = (client, ...words) => world.begin(coordinator, "run", "nightly-report", "--client-name", client, ...words);
  run("report.sh", "--reason", "monthly close", "--label", "ticket=OPS-1", "--", "sleep", "600");
  const sessions = async () => (await (await fetch(`${coordinator.admin}/api/v1/sessions`)).json()).sessions;
  await until("report.sh holds it", async () => (await sessions()).some((it) => it.grantCount === 1));
  for (const client of ["mail.sh", "backup.sh", "archive.sh"]) run(client, "--", "sleep", "600");
  await until("three wait", async () => (await sessions()).filter((it) => it.waitCount === 1).length === 3);
  return { ...coordinator, redis };
}

// A page of the busy coordinator.
async function open(world, path = "", expected = []) {
  const coordinator = await busy(world);
  const page = await world.page(`${coordinator.admin}/${path}`, { expected });
  return { page, coordinator };
}

export const questions = {
  async "is everything well: the overview says what needs a person, and how it has been"(world) {
    const { page } = await open(world);
    await page.locator("#banners", { hasText: /Deadlock: the holders of accounts:(alice|bob), accounts:(alice|bob) wait for each other/ }).waitFor();
    assert.equal(await page.locator("#banners li").count(), 1, "nothing else needs a person");
    assert.equal(await row(page, "coordinators-rows", "✓ ready").count(), 2);
    const figures = page.locator("#figures svg");
    assert.equal(await figures.count(), 6);
    await page.getByRole("button", { name: "2 minutes" }).click();
    const grants = page.getByRole("img", { name: /^Grants per second: now .*, at most [1-9].* in 2 minutes$/ });
    await grants.waitFor();
    assert.match(await grants.locator("path").getAttribute("d"), /^M.*L/, "a line is drawn");
    await row(page, "waited-rows", "nightly-report").getByText("3", { exact: true }).waitFor();
    await page.close();
  },

  async "is everything well: all coordinators are shown, and one that could not be asked is named"(world) {
    const redis = await world.redis();
    const [here, there] = [await world.coordinator(...fleetOn(redis)), await world.coordinator(...fleetOn(redis))];
    world.begin(there, "run", "job", "--client-name", "there.sh", "--", "sleep", "600");
    const page = await world.page(`${here.admin}/`);
    await row(page, "coordinators-rows", here.server).getByText("ready").waitFor();
    await row(page, "coordinators-rows", there.server).getByText("ready").waitFor();
    await page.locator("#charted", { hasText: "All coordinators" }).waitFor();
    const waits = page.getByRole("img", { name: /^Waits under way: now 1,/ });
    world.begin(there, "run", "job", "--client-name", "late.sh", "--", "true");
    await page.getByRole("button", { name: "2 minutes" }).click();
    await waits.waitFor();
    await row(page, "waited-rows", "job").waitFor();
    await row(page, "coordinators-rows", here.server).getByRole("link").click();
    await page.locator("#charted", { hasText: here.server }).waitFor();
    await waits.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Sessions" }).click();
    await row(page, "sessions-rows", "there.sh").getByText(there.server).waitFor();
    await call(there, "LockService/TryAcquire", { name: "taken", owner: "there", lease: "600s" });
    await call(there, "LockAdminService/ForceRelease", { name: "taken", reason: "a test" });
    await page.locator("#losses", { hasText: "1" }).waitFor();
    there.child.kill("SIGKILL");
    const missing = page.locator("#unasked", { hasText: `${there.server}: it cannot be reached` });
    for (const name of ["Overview", "Locks", "Graph", "Sessions", "Events"]) {
      await page.getByRole("link", { name }).click();
      await missing.waitFor();
    }
    await page.close();
  },

  async "the first paint does not wait for 10,000 locks"(world) {
    const { page } = await open(world, "#locks");
    const paint = () =>
      page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.POSITIVE_INFINITY);
    // The machine may be busy with something else, but not each time.
    let best = Number.POSITIVE_INFINITY;
    for (let times = 0; times < 5 && best >= 1000; times += 1) {
      await page.reload();
      await row(page, "locks-rows", "▸").first().waitFor();
      best = Math.min(best, await until("it is painted", paint));
    }
    assert.ok(best < 1000, `${best} ms`);
    await until("all are counted", async () => /10,0\d\d names/.test(await text(page.locator("#locks-count"))));
    await page.close();
  },

  async "10,000 names are grouped, found by any part, filtered and sorted"(world) {
    const { page } = await open(world, "#locks");
    const group = row(page, "locks-rows", "orders:");
    await group.getByText("2,500 names, 2,500 held").waitFor();
    assert.equal(await group.locator("td").last().getAttribute("data-label"), "Waiting");
    assert.equal(await page.locator("#locks-rows tbody tr").count() < 20, true, "groups only");
    await group.getByRole("button").click();
    await row(page, "locks-rows", "orders:00001").waitFor();
    const part = page.locator("#search [name=part]");
    await part.fill(":0409");
    await until("ten are left", async () => (await page.locator("#locks-rows tbody tr").count()) === 10);
    await row(page, "locks-rows", "stock:04091").or(row(page, "locks-rows", "stock:04095")).first().waitFor();
    await part.fill("");
    await page.locator("#search [name=sort]").selectOption("waiters");
    await until("the most wanted is first", async () => (await text(page.locator("#locks-rows tbody tr").first())).includes("nightly-report"));
    await page.locator("#search [name=state]").selectOption("waited");
    await until("three are waited for", async () => (await page.locator("#locks-rows tbody tr").count()) === 3);
    await page.locator("#search [name=holder]").fill("report.sh");
    await until("one is held by it", async () => (await page.locator("#locks-rows tbody tr").count()) === 1);
    await page.close();
  },

  async "a name of 200 characters is clipped in the middle, and a Redisson holder is marked"(world) {
    const { page, coordinator } = await open(world, "#locks");
    await page.locator("#search [name=part]").fill("migration");
    const link = page.locator(`#locks-rows [title="${LONG}"]`);
    await link.waitFor();
    assert.match(await text(link), /^tenants\/x+…x+\/migration$/);
    assert.ok((await text(link)).length < 60);
    await link.click();
    await page.locator("#lock-title", { hasText: LONG }).waitFor();
    await page.goto(`${coordinator.admin}/#lock/redisson%3Ajob`);
    const holder = page.locator("#lock-holders tbody tr");
    await holder.getByText("Redisson").waitFor();
    assert.match(await text(holder), /[0-9a-f]{16}:41/, "the client by its digest, and the thread");
    await page.close();
  },

  async "why does this lock make everybody wait: its page has the holder, since when, the queue and the chain"(world) {
    const { page } = await open(world);
    await row(page, "waited-rows", "nightly-report").getByRole("link").click();
    const holder = row(page, "lock-holders", "report.sh");
    await holder.getByText("monthly close · ticket=OPS-1").waitFor();
    await until("it says since when", async () => (await holder.locator("td[data-since]").count()) === 1);
    await holder.locator("td[data-until]").waitFor();
    assert.equal(await page.locator("#lock-waiters td[data-since]").count(), 3);
    assert.match(await text(page.locator("#lock-command")), /lockkeeper why nightly-report/);
    await page.locator("#timeline rect.held").waitFor();
    await page.goto(new URL("#lock/accounts%3Aalice", page.url()).href);
    const chain = page.locator("#lock-chain");
    await chain.getByText(/transfer-1, which holds accounts:alice, waits for accounts:bob/).waitFor();
    await chain.getByText(/Deadlock/).waitFor();
    await page.close();
  },

  async "the last grants of a lock are a line in time, with gaps and losses"(world) {
    const { page, coordinator } = await open(world, "#lock/line");
    for (const owner of ["first", "second"]) {
      await call(coordinator, "LockService/TryAcquire", { name: "line", owner, lease: "60s" });
      await call(coordinator, "LockService/Release", { name: "line", owner });
    }
    await call(coordinator, "LockService/TryAcquire", { name: "line", owner: "third", lease: "600s" });
    await call(coordinator, "LockAdminService/ForceRelease", { name: "line", reason: "host burned" });
    await page.locator("#timeline rect.lost").waitFor();
    assert.equal(await page.locator("#timeline rect").count(), 3);
    await page.getByText("As a table").click();
    await row(page, "grants-rows", "third").getByText("lost, FORCE_RELEASED: host burned").waitFor();
    await row(page, "grants-rows", "second").getByText("released").waitFor();
    await page.close();
  },

  async "who blocks whom: the graph draws waiters and holders, and names the deadlock"(world) {
    const { page } = await open(world);
    await page.getByRole("link", { name: "Graph" }).click();
    await page.locator("#deadlocks", { hasText: /transfer-\d waits for accounts:.*held by transfer-\d waits for accounts:/ }).waitFor();
    const node = (name) => page.locator("#drawing a, #drawing g", { hasText: name });
    assert.equal(await node("accounts:alice").locator("rect.bad").count(), 1);
    assert.equal(await node("nightly-report").locator("rect.bad").count(), 0);
    assert.equal(await page.locator("#drawing path.edge.bad").count(), 4);
    for (const client of ["report.sh", "mail.sh", "backup.sh", "archive.sh"]) assert.equal(await node(client).count(), 1, client);
    await page.getByText("As a list").click();
    await page.locator("#graph-list li", { hasText: "nightly-report held by report.sh" }).waitFor();
    await node("mail.sh").click();
    await page.locator("#session-title", { hasText: "mail.sh" }).waitFor();
    await page.close();
  },

  async "what is this client doing: its session has what it holds, waits for and lost, and can be ended"(world) {
    // The session that was ended is not found.
    const { page, coordinator } = await open(world, "#locks", ["404"]);
    const client = world.begin(coordinator, "run", "doomed", "--client-name", "doomed.sh", "--", "sleep", "600");
    await page.getByRole("link", { name: "Sessions" }).click();
    await row(page, "sessions-rows", "mail.sh").getByRole("link").click();
    await row(page, "session-waits", "nightly-report").locator("td[data-since]").waitFor();
    await page.getByText("It holds nothing.").waitFor();
    await page.getByText("It lost nothing lately.").waitFor();
    await page.getByRole("link", { name: "Sessions" }).click();
    await row(page, "sessions-rows", "doomed.sh").getByRole("link").click();
    await row(page, "session-holds", "doomed").waitFor();
    await page.getByRole("button", { name: "End session…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Why?").fill("key stolen");
    const digest = new URL(page.url()).hash.split("/")[1];
    await dialog.getByLabel("Type the digest").fill(digest);
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await client.ended, 76);
    await page.locator("#session-gone", { hasText: "No coordinator that was asked has this session" }).waitFor();
    await row(page, "session-lost", "doomed").getByText("FORCE_RELEASED: key stolen").waitFor();
    await page.close();
  },

  async "what happened: events are filtered, paused, exported, and each moment has a link"(world) {
    const { page, coordinator } = await open(world, "#events");
    for (const name of ["moment:1", "moment:2"]) await call(coordinator, "LockService/TryAcquire", { name, owner: "clock", lease: "600s" });
    await page.locator("#events-form [name=part]").fill("moment:");
    const items = page.locator("#events-rows tbody tr");
    await until("two are left", async () => (await items.count()) === 2);
    await page.locator("#events-form [name=event]").selectOption("released");
    await page.getByText("No kept event matches.").waitFor();
    await page.locator("#events-form [name=event]").selectOption("granted");
    await page.locator("#events-form [name=client]").fill("clock");
    await until("two are left", async () => (await items.count()) === 2);
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export as JSON lines" }).click();
    const lines = (await readFile(await (await saved).path(), "utf8")).trimEnd().split("\n").map(JSON.parse);
    assert.deepEqual(lines.map((it) => [it.event, it.name]), [["granted", "moment:1"], ["granted", "moment:2"]]);
    await page.getByRole("button", { name: "Pause" }).click();
    await call(coordinator, "LockService/TryAcquire", { name: "moment:3", owner: "clock", lease: "600s" });
    await page.waitForResponse((response) => response.url().includes("status"));
    assert.equal(await items.count(), 2, "it is paused");
    await page.getByRole("button", { name: "Go on" }).click();
    await until("three are there", async () => (await items.count()) === 3);
    await items.nth(1).getByRole("link").first().click();
    await page.locator("#events-rows tr.marked", { hasText: "moment:2" }).waitFor();
    assert.equal(new URL(page.url()).hash, `#events/${lines[1].at}`);
    await page.close();
  },
};
