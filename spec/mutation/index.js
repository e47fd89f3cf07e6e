// npm run mutation: do the specs bite? Changes one thing of the library at a time (flips a condition,
// drops a call, leaves a function early), in a copy, and runs the specs that reach it. What survives
// is printed: a spec is missing there, or the code is needless. `-- --help` says the rest.

import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync
} from 'node:fs'
import { symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import ts from 'typescript'

const FEATURES =
  'streams resume limits at-will hand-off who keyed hardening endpoint observe cookies'
const CACHE = join('node_modules', '.cache', 'mutation')
/** How many feature specs are tried for a mutant, the quickest first. */
const MOST = 12
const usage = `Usage: npm run mutation -- [folder or file ...] [--sample <n>] [--seed <n>]

By default 200 mutants of lib/streams, lib/readers and lib/access, drawn by the seed 1; --sample 0:
all of them. Which spec reaches which line is measured once, which takes a while, and kept in
${CACHE}: delete that where much has changed.`

const options = { sample: { type: 'string' }, seed: { type: 'string' }, help: { type: 'boolean' } }
const { values, positionals } = parseArgs({ allowPositionals: true, options })
const { sample = '200', seed = '1', help } = values
if (help) {
  console.log(usage)
  process.exit(0)
}

const tree = mkdtempSync(join(tmpdir(), 'mutation-'))
process.on('exit', () => rmSync(tree, { recursive: true, force: true }))
process.on('SIGINT', () => process.exit(130))
for (const name of ['lib', 'spec', 'package.json'])
  cpSync(name, join(tree, name), { recursive: true })
symlinkSync(resolve('node_modules'), join(tree, 'node_modules'))

const filesIn = (path, ending) =>
  path.endsWith(ending)
    ? [path]
    : readdirSync(path, { recursive: true })
        .filter(name => name.endsWith(ending))
        .map(name => join(path, name))

/** Whether the specs pass. A mutant that makes them hang has died, too. */
function pass(specs, more = []) {
  const flags = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning']
  const jest = [join('node_modules', 'jest', 'bin', 'jest.js'), '-w', '1', '--bail', '--silent']
  const args = [...flags, ...jest, ...more, '--runTestsByPath', ...specs]
  const spawned = { cwd: tree, stdio: 'ignore', timeout: 300_000, killSignal: 'SIGKILL' }
  return spawnSync(process.execPath, args, spawned).status === 0
}

/** A spec, how long it takes, and which lines of which files it reaches. */
function measured(spec) {
  const known = join(CACHE, `${spec.replaceAll(/[\\/]/g, '+')}.json`)
  if (existsSync(known)) return JSON.parse(readFileSync(known, 'utf8'))
  const folder = join(tree, 'coverage')
  const began = performance.now()
  pass([spec], ['--coverage', '--coverageReporters=json', `--coverageDirectory=${folder}`])
  const time = performance.now() - began
  const lines = {}
  const coverage = JSON.parse(readFileSync(join(folder, 'coverage-final.json'), 'utf8'))
  for (const [path, { s: hits, statementMap }] of Object.entries(coverage)) {
    const reached = Object.keys(hits).filter(key => hits[key] > 0)
    lines[relative(tree, path)] = [...new Set(reached.map(key => statementMap[key].start.line))]
  }
  mkdirSync(CACHE, { recursive: true })
  writeFileSync(known, JSON.stringify({ spec, time, lines }))
  return { spec, time, lines }
}

const FLIPPED = { '===': '!==', '!==': '===', '<': '>=', '>=': '<', '>': '<=', '<=': '>' }
const SWAPPED = { '&&': '||', '||': '&&' }

/** What may be changed in a file: which characters, into what, and the lines that lead there. */
function mutantsOf(file) {
  const text = readFileSync(join(tree, file), 'utf8')
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const mutants = []
  const lineOf = node => source.getLineAndCharacterOfPosition(node.getStart()).line + 1
  const add = (node, kind, into, from = node.getStart(), to = node.getEnd()) => {
    let statement = node
    while (!ts.isStatement(statement) && !ts.isClassElement(statement)) statement = statement.parent
    const lines = [lineOf(statement), lineOf(node)]
    const what = `${file}:${lines[1]} ${kind}: ${node.getText().split('\n')[0]}`
    mutants.push({ file, lines, what, into: text.slice(0, from) + into + text.slice(to) })
  }
  const visit = node => {
    const condition = ts.isIfStatement(node) ? node.expression : node.condition
    if (condition !== undefined && !ts.isForStatement(node))
      add(condition, 'flipped', `!(${condition.getText()})`)
    if (ts.isBinaryExpression(node)) {
      const operator = node.operatorToken
      const isCondition = node.parent.condition === node || ts.isIfStatement(node.parent)
      const flipped = isCondition ? undefined : FLIPPED[operator.getText()]
      const into = SWAPPED[operator.getText()] ?? flipped
      if (into !== undefined) add(node, into, into, operator.getStart(), operator.getEnd())
    }
    if (ts.isExpressionStatement(node)) {
      let called = node.expression
      while (ts.isAwaitExpression(called) || ts.isVoidExpression(called)) called = called.expression
      const isSuper = called.expression?.kind === ts.SyntaxKind.SuperKeyword
      if (ts.isCallExpression(called) && !isSuper) add(node, 'dropped', ';')
    }
    const [first] = node.body?.statements ?? []
    if (first !== undefined && !ts.isConstructorDeclaration(node))
      add(first, 'left before', 'return;', first.getStart(), first.getStart())
    ts.forEachChild(node, visit)
  }
  visit(source)
  return mutants
}

/** Drawn by the seed (mulberry32), so that a run can be repeated. */
function draw(all, count) {
  let state = Number(seed)
  const random = () => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return (x ^ (x >>> 14)) >>> 0
  }
  const drawn = all.map(mutant => ({ mutant, at: random() })).sort((a, b) => a.at - b.at)
  return drawn.slice(0, count || drawn.length).map(({ mutant }) => mutant)
}

const folders = FEATURES.split(' ').map(name => join('spec', 'features', name))
const quickestFirst = folder =>
  filesIn(folder, '.spec.ts')
    .map(measured)
    .sort((a, b) => a.time - b.time)
const unit = quickestFirst(join('spec', 'unit', 'streams'))
const features = folders.flatMap(quickestFirst).sort((a, b) => a.time - b.time)
const targets = positionals.length > 0 ? positionals : ['lib/streams', 'lib/readers', 'lib/access']
const mutants = draw(
  targets.flatMap(path => filesIn(path, '.ts')).flatMap(mutantsOf),
  Number(sample)
)
const survivors = []
for (const [index, { file, lines, what, into }] of mutants.entries()) {
  const original = readFileSync(join(tree, file), 'utf8')
  const reaching = specs =>
    specs.filter(one => lines.some(line => one.lines[file]?.includes(line))).map(one => one.spec)
  const near = reaching(features).slice(0, MOST)
  const runs = [reaching(unit), near.slice(0, 3), near.slice(3)].filter(run => run.length > 0)
  writeFileSync(join(tree, file), into)
  const survives = runs.every(run => pass(run))
  if (survives) survivors.push(what)
  writeFileSync(join(tree, file), original)
  console.log(`${index + 1} of ${mutants.length} ${survives ? 'SURVIVES' : 'dies'} ${what}`)
}
const died = mutants.length - survivors.length
console.log(
  `${died} of ${mutants.length} die. These survive:`,
  ...survivors.map(what => `\n${what}`)
)
