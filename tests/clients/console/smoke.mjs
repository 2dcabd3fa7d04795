// The console as a person uses it: what is held appears by itself, the queue, a loss, the keyboard, a phone, names that are meant to do harm; and the questions
// of questions.mjs.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { takePictures } from "./pictures.mjs";
import { questions } from "./questions.mjs";
import { World, isTooWide, row, until } from "./world.mjs";

const [binary, images] = process.argv.slice(2);
const HARMFUL = "<img src=x onerror=document.title='harm'>";
const PHONE = { width: 390, height: 844 };

// A request as another program would send it.
function ask(url, { method = "GET", headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers }, (response) => {
      let text = "";
      response.on("data", (more) => (text += more));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const stories = {
  async "what is held appears by itself, with who waits, and goes again"(world, readOnly) {
    const page = await world.page(`${readOnly.admin}/#locks`);
    await page.locator("#state.good").waitFor();
    await page.getByText("Nothing is held or waited for.").waitFor();
    const holder = world.begin(readOnly, "run", "orders:7", "--", "sleep", "600");
    const held = row(page, "locks-rows", "orders:7");
    await held.getByText("exclusive").waitFor();
    await held.getByText("sleep").waitFor();
    const before = await held.locator("td[data-until]").innerText();
    await until("the lease counts down", async () => (await held.locator("td[data-until]").innerText()) !== before);
    const waiter = world.begin(readOnly, "run", "orders:7", "--", "true");
    await until("one waits", async () => (await held.locator("td").last().innerText()).trim() === "1");
    await held.getByRole("link").click();
    await row(page, "lock-waiters", "true").waitFor();
    assert.equal(await page.locator("#lock-holders tbody tr").count(), 1);
    assert.equal(await page.locator("#force-open").isVisible(), false, "it is read-only");
    await page.getByRole("link", { name: "Sessions" }).click();
    await row(page, "sessions-rows", "sleep").getByText("live").waitFor();
    await row(page, "sessions-rows", "sleep").getByText(/^127\.0\.0\.1:\d+$/).waitFor();
    await page.getByRole("link", { name: "Locks", exact: true }).click();
    holder.kill("SIGTERM");
    assert.equal(await waiter.ended, 0);
    await page.getByText("Nothing is held or waited for.").waitFor();
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.locator("#events-rows tbody tr", { hasText: "released" }).first().waitFor();
    await page.close();
  },

  async "any part of a name finds it"(world, readOnly) {
    for (const name of ["a:1", "b:1"]) await world.run(readOnly, "try-acquire", name, "--owner", "x", "--lease", "10m");
    const page = await world.page(`${readOnly.admin}/#locks`);
    await row(page, "locks-rows", "b:1").waitFor();
    await page.locator("#search [name=part]").fill("a:");
    await until("the other one is gone", async () => (await row(page, "locks-rows", "b:1").count()) === 0);
    await row(page, "locks-rows", "a:1").waitFor();
    await page.locator("#search [name=part]").fill("c");
    await page.getByText("No name matches.").waitFor();
    for (const name of ["a:1", "b:1"]) await world.run(readOnly, "release", name, "--owner", "x");
    await page.close();
  },

  async "names and owners are text, whatever they say"(world, readOnly) {
    await world.run(readOnly, "try-acquire", HARMFUL, "--owner", HARMFUL, "--lease", "10m");
    const page = await world.page(`${readOnly.admin}/#locks`);
    await page.locator("#locks-rows").getByRole("link", { name: HARMFUL }).click();
    await page.locator("#lock-title", { hasText: HARMFUL }).waitFor();
    await row(page, "lock-holders", HARMFUL).waitFor();
    await world.run(readOnly, "release", HARMFUL, "--owner", HARMFUL);
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.locator("#events-rows tbody tr", { hasText: HARMFUL }).first().waitFor();
    assert.equal(await page.locator("img:not([src='/icon.svg'])").count(), 0);
    assert.ok(!(await page.title()).startsWith("harm"));
    const policy = await page.evaluate(async () => (await fetch("/")).headers.get("content-security-policy"));
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    await page.close();
  },

  async "everything can be done with the keyboard, and one sees where one is"(world, readOnly) {
    await world.run(readOnly, "try-acquire", "keys", "--owner", "x", "--lease", "10m");
    const page = await world.page(`${readOnly.admin}/#locks`);
    await row(page, "locks-rows", "keys").waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    const seen = [];
    for (let presses = 0; presses < 16; presses += 1) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const style = getComputedStyle(document.activeElement);
        return { text: document.activeElement.textContent, outline: style.outlineStyle, width: style.outlineWidth };
      });
      assert.ok(focus.outline !== "none" && focus.width !== "0px", `no focus to be seen on ${focus.text}`);
      seen.push(focus.text);
      if (focus.text === "keys") break;
    }
    assert.ok(seen.includes("keys"), seen.join(", "));
    // The rows are shown anew every few seconds; the focus stays.
    await page.waitForResponse((response) => response.url().includes("/api/v1/locks"));
    await page.waitForResponse((response) => response.url().includes("/api/v1/locks"));
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "keys");
    await page.keyboard.press("Enter");
    await page.locator("#lock-title", { hasText: "keys" }).waitFor();
    await world.run(readOnly, "release", "keys", "--owner", "x");
    await page.close();
  },

  async "a phone shows all of it without scrolling sideways"(world, readOnly) {
    const long = `orders:${"x".repeat(200)}`;
    const holder = world.begin(readOnly, "run", long, "--", "sleep", "600");
    const page = await world.page(`${readOnly.admin}/#locks`, { viewport: PHONE });
    const held = page.locator(`#locks-rows [title="${long}"]`);
    await held.waitFor();
    // Only now, or it might have been first.
    const waiter = world.begin(readOnly, "run", long, "--", "sleep", "0.1");
    const pages = ["Overview", "Graph", "Sessions", "Events", "Locks"];
    for (const name of pages) {
      await page.getByRole("link", { name, exact: true }).click();
      await page.locator(`#view-${name.toLowerCase()}`).waitFor();
      // The answer is on the page, and not only its frame.
      await page.waitForResponse((response) => /overview|graph|sessions|history|locks/.test(response.url()));
      assert.equal(await isTooWide(page), false, name);
    }
    await held.click();
    await row(page, "lock-waiters", "sleep").waitFor();
    assert.equal(await isTooWide(page), false, "a lock");
    await row(page, "lock-holders", "sleep").getByRole("link").click();
    await page.locator(`#session-holds [title="${long}"]`).waitFor();
    assert.equal(await isTooWide(page), false, "a session");
    // Before the session ends: the page would ask for one that is gone.
    await page.close();
    holder.kill("SIGTERM");
    await waiter.ended;
  },

  async "the holder of a lock is asked to yield it"(world, readOnly, mayForce) {
    const holder = world.begin(mayForce, "run", "--on-yield", "TERM", "polite", "--", "sleep", "600");
    const page = await world.page(`${mayForce.admin}/#lock/polite`);
    await row(page, "lock-holders", "sleep").waitFor();
    await page.getByRole("button", { name: "Ask to yield…" }).click();
    const dialog = page.getByRole("dialog");
    const button = dialog.getByRole("button", { name: "Ask to yield" });
    assert.equal(await button.isDisabled(), true, "without a reason");
    assert.equal(await dialog.getByLabel("Type the").isVisible(), false);
    await dialog.getByLabel("Why?").fill("release 1.4 waits");
    await page.keyboard.press("Enter");
    await dialog.getByText("1 of 1 holder reached").waitFor();
    assert.equal(await holder.ended, 143, "its command got the signal");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Nobody holds it.").waitFor();
    await until("it is audited", () => mayForce.log.some((line) => line.includes('"RequestYield"') && line.includes("1.4 waits")));
    await page.close();
    await world.run(readOnly, "try-acquire", "seen", "--owner", "x", "--lease", "10m");
    const seen = await world.page(`${readOnly.admin}/#lock/seen`);
    await row(seen, "lock-holders", "x").waitFor();
    assert.equal(await seen.getByRole("button", { name: "Ask to yield…" }).isVisible(), false);
    await world.run(readOnly, "release", "seen", "--owner", "x");
    await seen.close();
  },

  async "a lock is force-released after its name was typed, and the loss is told live"(world, readOnly, mayForce) {
    const holder = world.begin(mayForce, "run", "stuck", "--", "sleep", "600");
    const events = await world.page(`${mayForce.admin}/#events`);
    const page = await world.page(`${mayForce.admin}/#lock/stuck`);
    await page.getByRole("button", { name: "Force release…" }).click();
    const dialog = page.getByRole("dialog");
    const button = dialog.getByRole("button", { name: "Force release" });
    await dialog.getByLabel("Why?").fill("host 7 has burned down");
    await dialog.getByLabel("Type the name").fill("stick");
    assert.equal(await button.isDisabled(), true);
    await dialog.getByLabel("Type the name").fill("stuck");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await holder.ended, 76, "the holder was told");
    const lost = events.locator("#events-rows tr.lost", { hasText: "FORCE_RELEASED: host 7 has burned down" });
    await lost.waitFor();
    await events.locator("#losses", { hasText: "1" }).waitFor();
    assert.match(await events.locator("#announced").textContent(), /stuck was lost/);
    await events.locator("#events-form [name=event]").selectOption("lost");
    await until("only losses", async () => (await events.locator("#events-rows tbody tr:not(.lost)").count()) === 0);
    await lost.waitFor();
    await until("it is audited", () => mayForce.log.some((line) => line.includes('"target":"audit"') && line.includes("burned down")));
    await page.close();
    await events.close();
  },

  async "who has no credentials is asked for them, and sees what the rules allow"(world) {
    const tokens = join(world.profile, "tokens");
    const config = join(world.profile, "lockkeeper.toml");
    await writeFile(tokens, "ops the-token-of-an-operator\ndev the-token-of-a-developer\nteam the-token-of-a-team\n");
    await writeFile(
      config,
      `[auth]\ntoken_file = "${tokens}"\n[[access.rules]]\nidentity = "ops"\nprefix = ""\nallow = ["admin"]\n[[access.rules]]\nidentity = "team"\nprefix = "team/"\nallow = ["admin"]\n`,
    );
    const guarded = await world.coordinator("--config", config);
    const status = `${guarded.admin}/api/v1/status`;
    for (const [headers, expected] of [
      [{}, 401],
      [{ authorization: "Bearer the-token-of-nobody" }, 401],
      [{ authorization: "Bearer the-token-of-a-developer" }, 403],
      [{ authorization: "Bearer the-token-of-an-operator" }, 200],
    ]) {
      assert.equal((await ask(status, { headers })).status, expected);
    }
    const expected = ["401", "403"];
    const page = await world.page(`${guarded.admin}/`, { expected });
    const field = page.getByLabel("Bearer token");
    await field.fill("the-token-of-a-developer");
    await page.keyboard.press("Enter");
    await page.locator("#problem", { hasText: "PERMISSION_DENIED" }).waitFor();
    await field.fill("the-token-of-a-team");
    await page.keyboard.press("Enter");
    await page.locator("#problem", { hasText: "PERMISSION_DENIED" }).waitFor();
    await page.evaluate(() => (location.hash = "#locks"));
    await page.locator("#search [name=part]").fill("team/");
    await page.getByText("Nothing is held or waited for.").waitFor();
    await page.locator("#problem").waitFor({ state: "hidden" });
    await page.evaluate(() => (location.hash = ""));
    await page.locator("#problem", { hasText: "PERMISSION_DENIED" }).waitFor();
    await field.fill("the-token-of-an-operator");
    await page.keyboard.press("Enter");
    await page.getByText("Nothing needs you.").waitFor();
    await page.locator("#state.good").waitFor();
    assert.equal(await page.evaluate(() => document.cookie + localStorage.length), "0");
    assert.ok(guarded.log.some((line) => line.includes('"result":"denied"') && line.includes('"who":"dev"')));
    await page.close();
  },

  async "what another site sends is refused"(world, readOnly, mayForce) {
    const url = `${mayForce.admin}/api/v1/force-release`;
    const body = JSON.stringify({ name: "a", reason: "why", confirm: "a" });
    const json = { "content-type": "application/json" };
    const post = (headers) => ask(url, { method: "POST", headers, body });
    assert.equal((await post(json)).status, 200);
    assert.equal((await post({})).status, 415, "a form of another site");
    assert.equal((await post({ ...json, origin: "http://evil.example" })).status, 403);
    assert.equal((await post({ ...json, "sec-fetch-site": "cross-site" })).status, 403);
    assert.equal((await post({ ...json, host: "evil.example" })).status, 403, "a name that leads here");
    const seen = await ask(`${mayForce.admin}/`, { headers: { host: "evil.example" } });
    assert.equal(seen.status, 403);
    const wrong = JSON.stringify({ name: "a", reason: "why", confirm: "b" });
    assert.equal((await ask(url, { method: "POST", headers: json, body: wrong })).status, 400);
    const long = JSON.stringify({ name: "a", reason: "why", confirm: "a", gracePeriodSeconds: 4_000_000_000 });
    assert.equal((await ask(url, { method: "POST", headers: json, body: long })).status, 400);
    const refused = await ask(`${readOnly.admin}/api/v1/force-release`, { method: "POST", headers: json, body });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /NOT_ENABLED/);
    const page = await ask(`${readOnly.admin}/`);
    for (const name of ["x-content-type-options", "x-frame-options", "referrer-policy"]) assert.ok(page.headers[name], name);
  },
};

const world = new World(binary);
let passed = 0;
let failed = 0;
try {
  await world.open();
  const readOnly = await world.coordinator();
  const mayForce = await world.coordinator("--set", "admin.allow_force_release=true");
  for (const [name, story] of Object.entries({ ...stories, ...questions })) {
    try {
      await story(world, readOnly, mayForce);
      assert.deepEqual(world.troubles, [], "the browser complains");
      passed += 1;
      console.log(`ok: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED: ${name}\n${error.stack}`);
      world.troubles = [];
    }
  }
  if (process.env.SCREENSHOTS) await takePictures(world, images);
} finally {
  await world.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
