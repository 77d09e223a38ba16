// The servers that a browser test looks at: a sample origin, and grandstand in front of it. Each on free ports of 127.0.0.1.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env.GRANDSTAND ?? "target/debug/grandstand";
/** Milliseconds that anything may take, also on a slow machine. */
export const PATIENCE = 120000;

/**
 * Waits until a condition holds.
 * @template T
 * @param {string} what
 * @param {() => Promise<T> | T} condition
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(what, condition) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${PATIENCE / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A process of grandstand, and what it wrote line by line. */
class Process {
  /** @param {string[]} args */
  constructor(args) {
    this.child = spawn(BINARY, args, { stdio: ["pipe", "pipe", "pipe"] });
    /** @type {string[]} */
    this.lines = [];
    this.failed = "";
    this.child.on("error", (error) => { this.failed = `${BINARY}: ${error.message}`; });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => this.lines.push(line));
    }
    this.ended = new Promise((resolve) => this.child.once("close", resolve));
  }

  /**
   * The first line that has something, once it is there.
   * @param {string} what
   * @param {(line: string) => string | undefined} find
   * @returns {Promise<string>}
   */
  said(what, find) {
    return until(`the ${what} of grandstand`, () => {
      if (this.failed || this.child.exitCode !== null) throw new Error(`${this.failed}\n${this.lines.join("\n")}`);
      return this.lines.map(find).find(Boolean);
    });
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }
}

/** A sample origin. */
export class Origin extends Process {
  /** @param {number} listings */
  static async start(listings) {
    const origin = new Origin(["origin", "--listen", "127.0.0.1:0", "--until-stdin-closes", "--listings", `${listings}`]);
    origin.url = await origin.said("address", (line) => /^https?:\S+$/.exec(line)?.[0]);
    return origin;
  }

  /**
   * Changes venues.
   * @param {"touch" | "remove"} how
   * @param {number} count
   */
  async edit(how, count) {
    const before = this.lines.length;
    this.child.stdin.write(`${how} ${count}\n`);
    const changed = await until("the change of the origin", () => this.lines[before]);
    if (Number(changed) !== count) throw new Error(`the origin changed ${changed} venues, not ${count}`);
  }
}

/**
 * The address of a server on a free port, and what stops it.
 * @param {import("node:http").Server} server
 */
export async function listening(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${address.port}`, kill: () => { server.closeAllConnections(); server.close(); } };
}

/**
 * An origin behind a gate: further pages of its list wait until the gate is opened.
 * @param {{ url?: string }} origin
 */
export async function gated(origin) {
  let open = () => {};
  const opened = new Promise((resolve) => { open = () => resolve(undefined); });
  const server = createServer(async (request, answer) => {
    if (/[?&]page=\d/.test(request.url ?? "")) await opened;
    const tag = request.headers["if-none-match"];
    const passed = await fetch(`${origin.url}${request.url}`, { headers: tag ? { "If-None-Match": tag } : {} }).catch(() => null);
    if (!passed) return answer.destroy();
    const fields = ["content-type", "etag", "cache-control", "age"].flatMap((name) => {
      const value = passed.headers.get(name);
      return value === null ? [] : [[name, value]];
    });
    answer.writeHead(passed.status, Object.fromEntries(fields)).end(Buffer.from(await passed.arrayBuffer()));
  });
  const { url, kill } = await listening(server);
  return { url, open, kill: () => { open(); kill(); } };
}

/** A mirror that has all details. */
export class Mirror extends Process {
  /**
   * @param {{ url?: string }} origin
   * @param {string[]} sets further settings
   * @param {boolean} isCopied whether to wait until it has all details
   */
  static async start(origin, sets = [], isCopied = true) {
    const home = mkdtempSync(join(tmpdir(), "grandstand-browser-"));
    const settings = [
      `origin.url="${origin.url}"`, "origin.requests_per_minute=0", 'origin.cache_ttl="1s"', 'ttl="10s"',
      'listen=["127.0.0.1:0"]', 'admin.listen="127.0.0.1:0"', `data_dir="${home}/data"`, 'log.format="json"',
      "rate_limit.requests_per_minute=0", "mirror.examine_per_hour=0", ...sets,
    ];
    const mirror = new Mirror(["serve", ...settings.flatMap((setting) => ["--set", setting])]);
    mirror.home = home;
    const address = (/** @type {string} */ message) => (/** @type {string} */ line) => {
      const said = line.startsWith("{") ? JSON.parse(line) : {};
      return said.msg === message ? `http://${said.address}` : undefined;
    };
    mirror.url = await mirror.said("address", address("serving"));
    mirror.admin = await mirror.said("address for operators", address("admin listener"));
    if (isCopied) await until("the copy", async () => {
      const status = await mirror.status();
      return status.details?.mirrored > 0 && status.details.mirrored === status.details.of;
    });
    return mirror;
  }

  /** @returns {Promise<Record<string, any>>} */
  async status() {
    return (await fetch(`${this.admin}/status`)).json();
  }

  async kill() {
    await super.kill();
    rmSync(this.home, { recursive: true, force: true });
  }
}
