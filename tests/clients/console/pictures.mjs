// The pictures of docs/images: every page, light and dark, and on a phone.

import { mkdir } from "node:fs/promises";
import { call, holdMany, plantDeadlock, until } from "./world.mjs";

const WIDE = { width: 1200, height: 800 };
const PHONE = { width: 390, height: 844 };

const PICTURES = [
  ["console", "overview", "#figures svg", WIDE, "light"],
  ["console-locks", "locks", "#locks-rows .group", WIDE, "light"],
  ["console-lock", "lock/nightly-report", "#lock-waiters a", WIDE, "light"],
  ["console-graph", "graph", "#graph rect.bad", WIDE, "dark"],
  ["console-events", "events", "#events-rows tbody tr", WIDE, "dark"],
  ["console-phone", "lock/accounts%3Aalice", "#lock-chain .bad", PHONE, "dark"],
];

export async function takePictures(world, images) {
  await mkdir(images, { recursive: true });
  const coordinator = await world.coordinator("--set", "admin.allow_force_release=true");
  await holdMany(coordinator, 10_000);
  await plantDeadlock(world, coordinator);
  const run = (name, client, ...words) => world.begin(coordinator, "run", name, "--client-name", client, ...words);
  // A line in time: short grants, and then a long one that all wait for.
  for (const [client, seconds] of [["mail.sh", "1"], ["backup.sh", "3"], ["mail.sh", "2"], ["archive.sh", "2"]]) {
    await run("nightly-report", client, "--", "sleep", seconds).ended;
  }
  run("nightly-report", "report.sh", "--reason", "monthly close", "--label", "ticket=OPS-1", "--", "sleep", "600");
  const holders = async () => (await call(coordinator, "LockService/Describe", { name: "nightly-report" })).holders?.length;
  await until("it is held", holders);
  for (const client of ["mail.sh", "backup.sh", "archive.sh"]) run("nightly-report", client, "--", "sleep", "600");
  run("search-index", "search-1", "--mode", "read", "--", "sleep", "600");
  for (const [name, page, ready, viewport, colorScheme] of PICTURES) {
    const shown = await world.page(`${coordinator.admin}/#${page}`, { viewport, colorScheme });
    await shown.locator(ready).first().waitFor();
    await until("it is as it stays", async () => !(await shown.locator("#state.good").textContent()).includes("connecting"));
    await shown.screenshot({ path: `${images}/${name}.png` });
    await shown.close();
  }
}
