// npm run mutation: do the specs bite? Changes one thing of the library at a time (flips a condition,
// drops a call, leaves a function early), in a copy, and runs the specs that reach it. What survives
// is printed: a spec is missing there, or the code is needless.
//
//   npm run mutation -- [folder or file ...] [--sample <n>] [--seed <n>]
//
// By default 200 mutants of lib/streams, lib/readers and lib/access, drawn by the seed 1; --sample 0:
// all of them. Which spec reaches which line is measured once: delete node_modules/.cache/mutation
// where much has changed.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import ts from 'typescript'

/** Quick ones, which between them reach nearly all that is mutated. */
const FEATURES = [
  ...['streams', 'resume', 'who', 'cookies', 'at-will', 'limits', 'observe', 'revisions'],
  ...['hand-off', 'slow-json/upgrade.spec.ts', '../e2e/sweeps/stalled.spec.ts']
].map(name => join('spec', 'features', name))
const CACHE = join('node_modules', '.cache', 'mutation')
/** How many feature specs are tried for a mutant, the quickest first. */
const MOST = 12
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: 'string', default: '200' }, seed: { type: 'string', default: '1' } }
})

const tree = fs.mkdtempSync(join(tmpdir(), 'mutation-'))
process.on('exit', () => fs.rmSync(tree, { recursive: true, force: true }))
process.on('SIGINT', () => process.exit(130))
for (const name of ['.config', 'lib', 'spec', 'package.json'])
  fs.cpSync(name, join(tree, name), { recursive: true })
fs.symlinkSync(resolve('node_modules'), join(tree, 'node_modules'))

const filesIn = (path, ending) =>
  path.endsWith(ending)
    ? [path]
    : fs
        .readdirSync(path, { recursive: true })
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
  if (fs.existsSync(known)) return JSON.parse(fs.readFileSync(known, 'utf8'))
  const folder = join(tree, 'coverage')
  const began = performance.now()
  if (!pass([spec], ['--coverage', '--coverageReporters=json', `--coverageDirectory=${folder}`]))
    throw new Error(`${spec} fails as it is`)
  const time = performance.now() - began
  const lines = {}
  const coverage = JSON.parse(fs.readFileSync(join(folder, 'coverage-final.json'), 'utf8'))
  for (const [path, { s: hits, statementMap }] of Object.entries(coverage)) {
    const reached = Object.keys(hits).filter(key => hits[key] > 0)
    lines[relative(tree, path)] = [...new Set(reached.map(key => statementMap[key].start.line))]
  }
  fs.mkdirSync(CACHE, { recursive: true })
  fs.writeFileSync(known, JSON.stringify({ spec, time, lines }))
  return { spec, time, lines }
}

const FLIPPED = { '===': '!==', '!==': '===', '<': '>=', '>=': '<', '>': '<=', '<=': '>' }
const SWAPPED = { '&&': '||', '||': '&&' }

/** What may be changed in a file: which characters, into what, and the lines that lead there. */
function mutantsOf(file) {
  const text = fs.readFileSync(join(tree, file), 'utf8')
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

/** Drawn by the seed, so that a run can be repeated. */
const drawn = mutant => createHash('sha256').update(`${values.seed} ${mutant.what}`).digest('hex')

const quickestFirst = paths =>
  paths.flatMap(path => filesIn(path, '.spec.ts').map(measured)).sort((a, b) => a.time - b.time)
const unit = quickestFirst([join('spec', 'unit', 'streams')])
const features = quickestFirst(FEATURES)
const targets = positionals.length > 0 ? positionals : ['lib/streams', 'lib/readers', 'lib/access']
const all = targets.flatMap(path => filesIn(path, '.ts')).flatMap(mutantsOf)
const mutants = all
  .sort((a, b) => (drawn(a) < drawn(b) ? -1 : 1))
  .slice(0, Number(values.sample) || all.length)
const survivors = []
for (const [index, { file, lines, what, into }] of mutants.entries()) {
  const original = fs.readFileSync(join(tree, file), 'utf8')
  const reaching = specs =>
    specs.filter(one => lines.some(line => one.lines[file]?.includes(line))).map(one => one.spec)
  const near = reaching(features).slice(0, MOST)
  const runs = [reaching(unit), near.slice(0, 3), near.slice(3)].filter(run => run.length > 0)
  fs.writeFileSync(join(tree, file), into)
  const survives = runs.every(run => pass(run))
  if (survives) survivors.push(what)
  fs.writeFileSync(join(tree, file), original)
  console.log(`${index + 1} of ${mutants.length} ${survives ? 'SURVIVES' : 'dies'} ${what}`)
}
const died = mutants.length - survivors.length
console.log(
  `${died} of ${mutants.length} die. These survive:`,
  ...survivors.map(what => `\n${what}`)
)
