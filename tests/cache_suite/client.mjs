// The suite's own command-line client (its cli.mjs), with three differences: what came out of each case is judged as
// the published site judges it, everything has a time limit, and the results are a file. Called by run.py as
//
//     node client.mjs SUITE BASE_URL RESULT_FILE SECONDS [TEST_ID]
//
// Understands the layout of the repository (test-engine/) and that of the npm release.

import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [suite, base, file, seconds, only] = process.argv.slice(2)
const modern = fs.existsSync(path.join(suite, 'test-engine'))
const engine = modern ? path.join(suite, 'test-engine') : suite
const load = name => import(pathToFileURL(path.join(engine, name)))

// The suite gives up on a request after 10 s; what it leaves without limit gets one, too.
const PATIENCE = 10_000

const tests = (await import(pathToFileURL(path.join(suite, 'tests/index.mjs')))).default
const { runTests, getResults } = await load('client/runner.mjs')
// display.mjs of the npm release drags a library for browsers along, which prints nothing and changes nothing.
const { determineTestResult } = await load(modern ? 'lib/results.mjs' : 'lib/display.mjs')

// The last field of what determineTestResult returns is unique; only the newer release exports the table itself.
const OUTCOMES = {
  '-': 'untested',
  '✅': 'pass',
  '⛔️': 'fail',
  '⚠️': 'optional_fail',
  Y: 'yes',
  N: 'no',
  '🔹': 'setup_fail',
  '⁉️': 'harness_fail',
  '⚪️': 'dependency_fail',
  '↻': 'retry'
}

function outcome (id, results, dependencies) {
  return OUTCOMES[determineTestResult(tests, id, results, dependencies)[2]]
}

function finish (complete) {
  const results = getResults()
  const cases = []
  for (const group of tests) {
    for (const test of group.tests) {
      // Not for proxies; the site counts them for browsers only.
      if (test.browser_only === true) continue
      if (only && test.id !== only) continue
      const needs = (test.depends_on ?? []).filter(id => !['pass', 'yes'].includes(outcome(id, results, true)))
      cases.push({
        id: test.id,
        group: group.id,
        name: test.name,
        kind: test.kind ?? 'required',
        outcome: outcome(test.id, results, !only),
        alone: results[test.id] === true,
        reason: Array.isArray(results[test.id]) ? results[test.id].join(': ') : '',
        failed_dependencies: only ? [] : needs
      })
    }
  }
  fs.writeFileSync(file, JSON.stringify({ complete, layout: modern ? 'repository' : 'npm', cases, results }, null, 2))
  process.exit(0)
}

setTimeout(() => finish(false), Number(seconds) * 1000)

let selected = tests
if (only) {
  selected = tests
    .map(group => ({ ...group, tests: group.tests.filter(test => test.id === only) }))
    .filter(group => group.tests.length > 0)
  if (selected.length === 0) {
    console.error(`there is no case ${only}`)
    process.exit(1)
  }
  selected[0].tests[0].dump = true
}

if (modern) {
  const { fetch } = globalThis
  globalThis.fetch = (url, init = {}) => fetch(url, { signal: AbortSignal.timeout(PATIENCE), ...init })
  await runTests(selected, false, base)
} else {
  const fetch = createRequire(path.join(suite, 'package.json'))('node-fetch')
  await runTests(selected, (url, init = {}) => fetch(url, { timeout: PATIENCE, ...init }), false, base)
}
finish(true)
