// npm run mutation: do the specs bite? Changes one thing of the library at a time (flips a condition,
// drops a call, leaves a function early), in a copy, and runs the specs that reach it, the quickest
// first. What survives is printed: a spec is missing there, or the code is needless.
//
//   npm run mutation -- [folder or file ...] [--sample <n>] [--seed <n>] [--from <n>]
//
// By default 300 mutants of the core, drawn by the seed 1; --sample 0: all of them. --from: goes on
// with the nth, where a run was stopped. Each core of the machine has a copy of its own. Which spec
// reaches which line is measured once: delete node_modules/.cache/mutation where much has changed.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import ts from 'typescript'

const CORE = ['protocol', 'streams', 'readers', 'access', 'http', 'endpoint', 'routes']
const SPECS = [join('spec', 'unit'), join('spec', 'features')]
const CACHE = resolve('node_modules', '.cache', 'mutation')
/** How many specs are tried at a time for a mutant, the quickest of all that reach it first. */
const BATCHES = [2, 6, 16]
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    from: { type: 'string', default: '1' }
  }
})

const trees = Array.from({ length: availableParallelism() }, () => {
  const tree = fs.mkdtempSync(join(tmpdir(), 'mutation-'))
  for (const name of ['.config', 'lib', 'spec', 'package.json'])
    fs.cpSync(name, join(tree, name), { recursive: true })
  fs.symlinkSync(resolve('node_modules'), join(tree, 'node_modules'))
  return tree
})
process.on('exit', () => trees.forEach(tree => fs.rmSync(tree, { recursive: true, force: true })))
process.on('SIGINT', () => process.exit(130))

const filesIn = path =>
  path.endsWith('.ts')
    ? [path]
    : fs
        .readdirSync(path, { recursive: true })
        .filter(name => name.endsWith('.ts'))
        .map(name => join(path, name))

/** Whether the specs pass. A mutant that makes them hang has died, too. */
function pass(cwd, specs, more, timeout, own) {
  const flags = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning']
  const jest = [join('node_modules', 'jest', 'bin', 'jest.js'), '--silent', ...specs, ...more]
  const env = { ...process.env, ...own }
  const spawned = { cwd, env, stdio: 'ignore', timeout, killSignal: 'SIGKILL' }
  return new Promise(resolve =>
    spawn(process.execPath, [...flags, ...jest], spawned).on('exit', code => resolve(code === 0))
  )
}

/** All specs, the quickest first: how long each takes, and which lines of which files it reaches. */
async function measured() {
  const known = join(CACHE, 'reach.json')
  if (!fs.existsSync(known)) {
    fs.mkdirSync(CACHE, { recursive: true })
    const [tree] = trees
    const reporter = `--reporters=${join(tree, 'spec', 'mutation', 'reach.js')}`
    const coverage = ['--coverage', '--coverageReporters=none', '--collectCoverageFrom=lib/**/*.ts']
    if (!(await pass(tree, SPECS, [...coverage, reporter], 3_600_000, { REACH: known })))
      throw new Error('the specs fail as they are')
  }
  return JSON.parse(fs.readFileSync(known, 'utf8')).sort((a, b) => a.time - b.time)
}

const FLIPPED = { '===': '!==', '!==': '===', '<': '>=', '>=': '<', '>': '<=', '<=': '>' }
const SWAPPED = { '&&': '||', '||': '&&' }

/** What may be changed in a file: which characters, into what, and the lines that lead there. */
function mutantsOf(file) {
  const text = fs.readFileSync(file, 'utf8')
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
      // What is only said to a developer who listens is not a promise.
      const isDebug = /\bdebug$/.test(called.expression?.getText())
      if (ts.isCallExpression(called) && !isSuper && !isDebug) add(node, 'dropped', ';')
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

const specs = await measured()
const targets = positionals.length > 0 ? positionals : CORE.map(name => join('lib', name))
const all = targets.flatMap(filesIn).flatMap(mutantsOf)
const mutants = all
  .sort((a, b) => (drawn(a) < drawn(b) ? -1 : 1))
  .slice(0, Number(values.sample) || all.length)

/** Whether all specs pass that are tried for it. */
async function survives(tree, { file, lines, into }) {
  const reaching = specs
    .filter(one => lines.some(line => one.lines[file]?.includes(line)))
    .map(({ spec }) => spec)
  const original = fs.readFileSync(join(tree, file), 'utf8')
  fs.writeFileSync(join(tree, file), into)
  try {
    const more = ['--runInBand', '--bail', '--testTimeout=20000', '--runTestsByPath']
    for (const size of BATCHES) {
      const batch = reaching.splice(0, size)
      if (batch.length === 0) return true
      if (!(await pass(tree, batch, more, 180_000, { PATIENCE: '15000' }))) return false
    }
    return true
  } finally {
    fs.writeFileSync(join(tree, file), original)
  }
}

const survivors = []
const first = Number(values.from) - 1
let next = first
async function work(tree) {
  while (next < mutants.length) {
    const n = ++next
    const mutant = mutants[n - 1]
    const isAlive = await survives(tree, mutant)
    if (isAlive) survivors.push(mutant.what)
    console.log(`${n} of ${mutants.length} ${isAlive ? 'SURVIVES' : 'dies'} ${mutant.what}`)
  }
}
await Promise.all(trees.map(work))
const tried = mutants.length - first
console.log(
  `${tried - survivors.length} of ${tried} die. These survive:`,
  ...survivors.map(what => `\n${what}`)
)
