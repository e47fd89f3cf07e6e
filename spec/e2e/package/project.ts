// An empty project in a temporary folder: installs the packed package without a network, and runs a
// file in it.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const root = fileURLToPath(new URL('../../../', import.meta.url))

const readJson = (file: string): unknown => JSON.parse(readFileSync(join(root, file), 'utf8'))

export const manifest = readJson('package.json') as {
  dependencies: Record<string, string>
  bin: string
  exports: object
  repository: { url: string }
  version: string
  homepage: string
  bugs: string
}

/** What `consumers/jobs.mjs` prints of the entry points: each has done its job. */
export const DOORS_WORK = {
  main: true,
  sessions: true,
  tasks: true,
  backplane: true,
  redis: true,
  resources: true,
  cookie: true,
  wires: true,
  inspector: true,
  client: true,
  clientNode: true
}

const lock = readJson('package-lock.json') as {
  packages: Record<string, { dependencies?: Record<string, string> }>
}

const consumers = fileURLToPath(new URL('consumers/', import.meta.url))
/** The packages that are built into a file of dist. */
export function included(file: string): string[] {
  const sources = readFileSync(file, 'utf8').matchAll(
    /^\/\/ node_modules\/((?:@[^/]+\/)?[^/]+)\//gm
  )
  return [...new Set(Array.from(sources, ([, name]) => name as string))]
}

const runFile = promisify(execFile)

/** Only a hung program lasts this long, and none outlasts the spec that started it. */
const failsafe = 500_000

/** Runs a program to its end; a failure carries what it printed. */
export async function run(program: string, args: string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await runFile(program, args, {
      cwd,
      timeout: failsafe,
      maxBuffer: 16 * 1024 * 1024
    })
    return stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${program} ${args.join(' ')} failed:\n${stdout ?? ''}${stderr ?? ''}`, {
      cause: error
    })
  }
}

/**
 * Copies a package of this repository, with all it needs, to a node_modules. Not as links: npm
 * would run their scripts.
 */
async function provide(modules: string, name: string, source = name): Promise<void> {
  const target = join(modules, name)
  if (existsSync(target)) return
  await cp(join(root, 'node_modules', source), target, { recursive: true })

  const nested = `node_modules/${source}/`
  const needs = Object.entries(lock.packages)
    .filter(([path]) => `${path}/`.startsWith(nested))
    .flatMap(([, { dependencies = {} }]) => Object.keys(dependencies))
  for (const need of needs) {
    if (!(`${nested}node_modules/${need}` in lock.packages)) await provide(modules, need)
  }
}

export interface ProjectOptions {
  /** The folder to create the project's own in. */
  within: string
  type: 'module' | 'commonjs'
  tarball: string
  /** Packages the project has beside ours, by name; the value is their name in this repository. */
  beside: Record<string, string>
  /** The project's tsconfig.json, where it has one. */
  tsconfig?: object
}

export class Project {
  readonly folder: string

  private constructor(folder: string) {
    this.folder = folder
  }

  static async create({
    within,
    type,
    tarball,
    beside,
    tsconfig
  }: ProjectOptions): Promise<Project> {
    const project = new Project(await mkdtemp(join(within, 'consumer-')))
    // Ours are named too: npm removes what nobody needs before it looks into the tarball.
    const needed = [...Object.keys(beside), ...Object.keys(manifest.dependencies)]
    const dependencies = Object.fromEntries(needed.map(name => [name, '*']))
    await project.#write('package.json', { name: 'consumer', private: true, type, dependencies })
    if (tsconfig !== undefined) await project.#write('tsconfig.json', tsconfig)

    await cp(consumers, project.folder, { recursive: true })

    // What is in place already is not asked of a registry, so this runs on a machine without a
    // network.
    const modules = join(project.folder, 'node_modules')
    for (const name of needed) await provide(modules, name, beside[name])
    // The programs too: npm fetches a package anew when the link to its program is missing.
    await cp(join(root, 'node_modules/.bin'), join(modules, '.bin'), {
      recursive: true,
      verbatimSymlinks: true
    })
    await run(
      'npm',
      ['install', '--offline', '--no-package-lock', '--no-audit', '--no-fund', tarball],
      project.folder
    )
    return project
  }

  /** Runs a file of the project and gives what it printed. */
  async run(file: string): Promise<unknown> {
    return JSON.parse(await run(process.execPath, [file], this.folder))
  }

  async #write(file: string, content: object): Promise<void> {
    await writeFile(join(this.folder, file), JSON.stringify(content, null, 2))
  }
}
