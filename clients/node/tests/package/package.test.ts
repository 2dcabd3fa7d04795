/** The package as a registry would take it, installed into an empty project and used there. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { BINARY, Coordinator, folder } from "../world.js";

const run = promisify(execFile);
const sources = resolve("tests/package");
const compiler = resolve("node_modules/.bin/tsc");
const types = resolve("node_modules/@types");

test("the package works in an empty project, in TypeScript, JavaScript and CommonJS", async (t) => {
  const coordinator = await Coordinator.start(t);
  const project = folder(t);
  const npm = async (cwd: string, ...args: string[]): Promise<string> =>
    (await run("npm", [...args, "--silent", "--no-audit", "--no-fund"], { cwd })).stdout;
  await npm(".", "pack", "--pack-destination", project);
  const [tarball] = readdirSync(project);
  writeFileSync(join(project, "package.json"), `{ "name": "empty", "type": "module" }`);
  await npm(project, "install", "--prefer-offline", `./${String(tarball)}`);
  for (const file of ["typed.ts", "plain.mjs", "common.cjs", "hold.mjs"]) {
    cpSync(join(sources, file), join(project, file));
  }

  const installed = join(project, "node_modules/lockkeeper");
  assert.deepEqual(readdirSync(installed).sort(), ["LICENSE", "README.md", "dist", "package.json"]);

  // Strict, and with the types of the package checked as well.
  const options = ["--strict", "--target", "es2022", "--module", "nodenext"];
  const libraries = ["--lib", "es2023,esnext.disposable", "--typeRoots", types, "--types", "node"];
  await run(compiler, [...options, ...libraries, "typed.ts"], { cwd: project });

  const node = async (file: string): Promise<string> => {
    const env = { ...process.env, ENDPOINT: coordinator.url };
    const { stdout, stderr } = await run("node", [file], { cwd: project, env });
    assert.equal(stderr, "");
    return stdout;
  };
  assert.equal(await node("typed.js"), "true true null\nreports false\n");
  assert.equal(await node("plain.mjs"), "reports null\nfalse\n");
  const newUser = resolve("../new-user");
  const env = { ...process.env, LOCKKEEPER: BINARY };
  console.log((await run(newUser, ["node", "node", "hold.mjs"], { cwd: project, env })).stdout);
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || minor >= 19) {
    assert.equal(await node("common.cjs"), "reports\n");
  }
});
