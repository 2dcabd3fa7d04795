// The pictures of docs/images/console: every page, light, dark and on a phone, of one of two coordinators on a busy Redis.

import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import UPNG from "upng-js";
import { call, holdMany, plantDeadlock, plantRedissonHolder, until } from "./world.mjs";

const WIDE = { width: 1200, height: 800 };
const PHONE = { width: 390, height: 844 };
const LOOKS = { light: [WIDE, "light"], dark: [WIDE, "dark"], phone: [PHONE, "light"] };

const LONG = `tenants/${"x".repeat(180)}/migration`;
const HOT = "inventory:4711";
const CALLERS = 12;
const WORK_MS = 20;
const COLOURS = 128;
// A list of 10,000 names takes a busy machine a while.
const PATIENCE_MS = 300_000;

// The page, where it is, what is on it when it is complete, and a button to press. The overview is the last: its charts need some time.
const pages = (session) => [
  ["locks", "locks", "#locks-count:text('10,0')"],
  ["lock", "lock/nightly-report", "#lock-waiters a"],
  ["hot-lock", `lock/${encodeURIComponent(HOT)}`, "#timeline rect"],
  ["deadlock", "lock/accounts%3Abob", "#lock-chain .bad"],
  ["redisson", "lock/payments%3Asettlement", "#lock-holders tbody tr"],
  ["long-name", `lock/${encodeURIComponent(LONG)}`, "#lock-holders tbody tr"],
  ["semaphore", "semaphore/downloads", "#lock-holders tbody tr"],
  ["graph", "graph", "#drawing rect.bad"],
  ["sessions", "sessions", "#sessions-rows tbody tr"],
  ["session", `session/${session}`, "#session-holds tbody tr"],
  ["events", "events", "#events-rows tbody tr"],
  ["overview", "overview", "#figures svg", "2 minutes"],
];

export async function takePictures(world, images) {
  const folder = `${images}/console`;
  await mkdir(folder, { recursive: true });
  const redis = await world.redis();
  const both = { "admin.allow_force_release": true, "session.secret": randomBytes(32).toString("hex"), "fleet.address": "127.0.0.1" };
  const settings = ["--store", redis.url, ...Object.entries(both).flatMap(([key, value]) => ["--set", `${key}=${value}`])];
  const [coordinator, other] = [await world.coordinator(...settings), await world.coordinator(...settings)];
  await holdMany(coordinator, 10_000);
  const churn = { goesOn: true };
  const callers = Array.from({ length: CALLERS }, (_, at) => contend(coordinator, HOT, `worker-${at + 1}`, churn));
  try {
    const session = await plant(world, redis, coordinator, other);
    for (const [name, page, ready, button] of pages(session)) {
      const shown = await world.page(`${coordinator.admin}/#${page}`, { viewport: WIDE });
      if (button) await shown.getByRole("button", { name: button, exact: true }).click();
      await shown.locator(ready).first().waitFor({ timeout: PATIENCE_MS });
      await until("it is as it stays", async () => !(await shown.locator("#state.good").textContent()).includes("connecting"));
      for (const [look, [viewport, colorScheme]] of Object.entries(LOOKS)) {
        await shown.setViewportSize(viewport);
        await shown.emulateMedia({ colorScheme });
        await writeFile(`${folder}/${name}-${look}.png`, withPalette(await shown.screenshot()));
      }
      await shown.close();
    }
  } finally {
    churn.goesOn = false;
    await Promise.allSettled(callers);
  }
}

// What people come with; answers with the session of report.sh.
async function plant(world, redis, coordinator, other) {
  await plantDeadlock(world, coordinator, other);
  await plantRedissonHolder(redis, "payments:settlement", "8743c9c0-0795-4907-87fd-6c719a6b4586:41");
  await call(coordinator, "LockService/TryAcquire", { name: LONG, owner: "migrate-1", lease: "3600s" });
  const run = (name, client, ...words) => world.begin(coordinator, "run", name, "--client-name", client, ...words);
  await world.run(coordinator, "semaphore", "set", "downloads", "4");
  for (const client of ["fetch-1", "fetch-2"]) run("downloads", client, "--permits", "2", "--", "sleep", "600");
  // A line in time: short grants, and then a long one that all wait for.
  for (const [client, seconds] of [["mail.sh", "1"], ["backup.sh", "3"], ["mail.sh", "2"], ["archive.sh", "2"]]) {
    await run("nightly-report", client, "--", "sleep", seconds).ended;
  }
  run("nightly-report", "report.sh", "--reason", "monthly close", "--label", "ticket=OPS-1", "--", "sleep", "600");
  const holders = async () => (await call(coordinator, "LockService/Describe", { name: "nightly-report" })).holders?.length;
  await until("it is held", holders);
  for (const client of ["mail.sh", "backup.sh", "archive.sh"]) run("nightly-report", client, "--", "sleep", "600");
  run("search-index", "search-1", "--mode", "read", "--", "sleep", "600");
  world.begin(other, "run", "search-index", "--client-name", "search-2", "--mode", "read", "--", "sleep", "600");
  const sessions = async () => (await (await fetch(`${coordinator.admin}/api/v1/sessions`)).json()).sessions;
  const ofReport = (all) => all.find((it) => it.clientName === "report.sh" && it.grantCount === 1);
  return (await until("report.sh holds it", async () => ofReport(await sessions()))).sessionDigest;
}

// A caller that waits for a lock again and again.
async function contend(coordinator, name, owner, churn) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ name, owner, lease: "10s", waitTimeout: "60s" });
  while (churn.goesOn) {
    // A line for each event: the last one is the grant.
    const answer = await fetch(`${coordinator.server}/lockkeeper.v1.LockService/Acquire`, { method: "POST", headers, body });
    if (!(await answer.text()).includes('"granted"')) throw new Error(`${owner} was not granted ${name}`);
    await new Promise((resume) => setTimeout(resume, WORK_MS));
    await call(coordinator, "LockService/Release", { name, owner });
  }
}

// The picture with a palette, which takes a third of the bytes.
function withPalette(png) {
  const picture = UPNG.decode(png);
  return Buffer.from(UPNG.encode(UPNG.toRGBA8(picture), picture.width, picture.height, COLOURS));
}
