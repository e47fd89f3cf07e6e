// What operators may copy: the process managers' recipes are carried out, as far as they go without
// one, and what Prometheus, Grafana and Kubernetes read is held against what there is.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse, parseAllDocuments } from 'yaml'
import { callTool, headersFor, post } from '../../helpers/mcp.js'
import { run } from '../package/project.js'
import { codesIn, page, root, tablesOf } from './markdown.js'

const file = (name: string) => readFileSync(`${root}examples/operations/${name}`, 'utf8')

/** Milliseconds that `streams.close()` waits for calls by default. */
const DRAIN = 20_000

describe('a process manager', () => {
  let folder: string

  beforeAll(async () => {
    await promisify(execFile)(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
    folder = await mkdtemp(join(tmpdir(), 'recipes-'))
    await mkdir(join(folder, 'node_modules'))
    for (const name of ['@modelcontextprotocol', 'express'])
      await symlink(join(root, 'node_modules', name), join(folder, 'node_modules', name))
    await symlink(root, join(folder, 'node_modules/express-mcp-streams'))
  })

  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** The folder of a server: the stateless one of the quick start. */
  async function serverIn(name: string): Promise<string> {
    const target = join(folder, name)
    await mkdir(target)
    await cp(`${root}examples/quick-start/stateless.js`, join(target, 'server.js'))
    const manifest = { name: 'mcp', version: '1.0.0', type: 'module' }
    await writeFile(join(target, 'package.json'), JSON.stringify(manifest))
    return target
  }

  /** Starts a server and stops it in the middle of a call, with how it ends. */
  async function stopInACall(program: string, args: string[], cwd: string, env: object) {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...env } as NodeJS.ProcessEnv
    })
    try {
      const exited = once(child, 'exit')
      const [line] = (await once(child.stdout, 'data')) as [Buffer]
      const headers = headersFor({ version: '2025-11-25' })
      const call = await post(String(line).trim(), callTool(1, 'count', {}), headers)
      await call.take(2)
      child.kill('SIGTERM')
      await call.ended
      return { text: call.text, exit: await exited }
    } finally {
      child.kill('SIGKILL')
    }
  }
  const finished = { text: expect.stringContaining('Counted to three'), exit: [0, null] }

  it('finishes a call by the recipe for PM2', async () => {
    const { apps } = createRequire(import.meta.url)(
      `${root}examples/operations/ecosystem.config.cjs`
    ) as { apps: Record<string, unknown>[] }
    const [app] = apps
    expect(app).toMatchObject({ exec_mode: 'fork', instances: 1, env: { PORT: 3000 } })
    expect(app!['kill_timeout']).toBeGreaterThan(DRAIN)
    const env = { ...(app!['env'] as object), PORT: '0' }
    const cwd = await serverIn('pm2')
    expect(await stopInACall(process.execPath, [String(app!['script'])], cwd, env)).toEqual(
      finished
    )
  })

  it('finishes a call by the recipe for Docker', async () => {
    const steps = [...file('Dockerfile').matchAll(/^([A-Z]+) (.+)$/gm)].map(
      ([, step, text]) => [step!, text!] as const
    )
    const known = ['FROM', 'WORKDIR', 'ENV', 'COPY', 'RUN', 'USER', 'EXPOSE', 'CMD']
    expect([...new Set(steps.map(([step]) => step))].sort()).toEqual(known.sort())
    const context = await serverIn('context')
    await run('npm', ['install', '--package-lock-only', '--offline', '--no-audit'], context)

    const image = join(folder, 'image')
    await mkdir(image)
    const env: Record<string, string> = {}
    let command: string[] = []
    for (const [step, text] of steps) {
      if (step === 'ENV')
        for (const [, name, value] of text.matchAll(/(\w+)=(\S+)/g)) env[name!] = value!
      if (step === 'COPY')
        for (const name of text.split(' ').slice(0, -1))
          await cp(join(context, name), name === '.' ? image : join(image, name), {
            recursive: true
          })
      if (step === 'RUN') await run('sh', ['-c', `${text} --offline --no-audit`], image)
      if (step === 'CMD') command = JSON.parse(text) as string[]
    }
    expect(env).toEqual({ NODE_ENV: 'production', PORT: '3000' })
    expect(steps).toContainEqual(['EXPOSE', env['PORT']])
    const [program, ...args] = command
    // Not by npm, which keeps the signal to itself.
    expect(program).toBe('node')
    expect(await stopInACall(program!, args, image, { ...env, PORT: '0' })).toEqual(finished)
    const [, seconds] = /docker stop --time (\d+)/.exec(file('Dockerfile'))!
    expect(Number(seconds) * 1000).toBeGreaterThan(DRAIN)
  })

  it('has time for it by the recipe for Kubernetes', () => {
    const [deployment, service] = parseAllDocuments(file('kubernetes.yaml')).map(
      document => document.toJS() as Tree
    )
    expect([deployment!['kind'], service!['kind']]).toEqual(['Deployment', 'Service'])
    expect(unknownFields(deployment!, DEPLOYMENT)).toEqual([])
    expect(unknownFields(service!, SERVICE)).toEqual([])
    const { selector, template } = deployment!['spec'] as Tree & { selector: Tree; template: Tree }
    const { labels } = template['metadata'] as Tree
    expect(labels).toEqual(selector['matchLabels'])
    const { selector: chosen, ports } = service!['spec'] as { selector: Tree; ports: Tree[] }
    expect(labels).toEqual(chosen)
    const { containers, terminationGracePeriodSeconds } = template['spec'] as {
      containers: Container[]
      terminationGracePeriodSeconds: number
    }
    const [{ lifecycle, ports: open, readinessProbe }] = containers as [Container]
    const [sleep, seconds] = lifecycle.preStop.exec.command
    expect(sleep).toBe('sleep')
    expect(terminationGracePeriodSeconds * 1000).toBeGreaterThan(Number(seconds) * 1000 + DRAIN)
    expect(ports.map(({ targetPort }) => targetPort)).toEqual([open[0]!.containerPort])
    expect(readinessProbe.httpGet.port).toBe(open[0]!.containerPort)
  })
})

type Tree = Record<string, unknown>
interface Container {
  lifecycle: { preStop: { exec: { command: string[] } } }
  ports: { containerPort: number }[]
  readinessProbe: { httpGet: { path: string; port: number } }
}

/** The fields of apps/v1 Deployment and v1 Service that the recipe uses, `*` for any name. */
const COMMON = ['apiVersion', 'kind', 'metadata.name']
const DEPLOYMENT = [
  ...COMMON,
  'spec.replicas',
  'spec.selector.matchLabels.*',
  'spec.strategy.rollingUpdate.maxSurge',
  'spec.strategy.rollingUpdate.maxUnavailable',
  'spec.template.metadata.labels.*',
  'spec.template.spec.terminationGracePeriodSeconds',
  ...[
    'name',
    'image',
    'ports.*.containerPort',
    'readinessProbe.httpGet.path',
    'readinessProbe.httpGet.port',
    'lifecycle.preStop.exec.command.*',
    'resources.limits.memory'
  ].map(field => `spec.template.spec.containers.*.${field}`)
]
const SERVICE = [
  ...COMMON,
  'spec.selector.*',
  'spec.ports.*.port',
  'spec.ports.*.targetPort',
  'spec.sessionAffinity'
]

function unknownFields(tree: Tree, known: readonly string[], path: string[] = []): string[] {
  return Object.entries(tree).flatMap(([name, value]) => {
    const at = [...path, name]
    if (typeof value === 'object' && value !== null) return unknownFields(value as Tree, known, at)
    const isKnown = known.some(field => {
      const names = field.split('.')
      return names.length === at.length && names.every((name, i) => name === '*' || name === at[i])
    })
    return isKnown ? [] : [at.join('.')]
  })
}

describe('what watches', () => {
  const recipe = readFileSync(`${root}spec/features/observe/metrics.spec.ts`, 'utf8')
  const figuresIn = (text: string) => new Set(text.match(/mcp_streams_[a-z_]*[a-z]/g))

  it('watches figures that there are', () => {
    const known = figuresIn(recipe)
    for (const name of ['alerts.yaml', 'grafana.json', 'README.md'])
      for (const figure of figuresIn(file(name)))
        expect([name, [...known]]).toEqual([name, expect.arrayContaining([figure])])
  })

  it('looks for lines that there are', () => {
    const sources = readdirSync(`${root}lib`, { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ts'))
      .map(name => readFileSync(`${root}lib/${name}`, 'utf8'))
      .join('\n')
    const [table] = tablesOf(page('examples/operations/README.md').section('Troubleshooting'))
    const lines = table!.rows.flatMap(([, look]) => codesIn(look!))
    const words = lines
      .filter(line => line.includes(' '))
      .flatMap(line => line.split(/(?:^POST )|…|[:,(]|\d{3}/))
      .map(text => text.replace(')', '').trim())
      .filter(text => text.length > 3)
    expect(words.length).toBeGreaterThan(10)
    for (const text of words) expect([text, sources.includes(text)]).toEqual([text, true])
  })

  it('rates what is counted, and nothing else', () => {
    const { groups } = parse(file('alerts.yaml')) as {
      groups: { rules: { expr: string; labels: { severity: string } }[] }[]
    }
    const { panels } = JSON.parse(file('grafana.json')) as {
      panels: { title: string; targets: { expr: string }[] }[]
    }
    expect(groups[0]!.rules).toHaveLength(6)
    for (const { labels } of groups[0]!.rules)
      expect(labels.severity).toMatch(/^(critical|warning)$/)
    expect(panels).toHaveLength(7)
    const queries = [
      ...groups.flatMap(({ rules }) => rules),
      ...panels.flatMap(({ targets }) => targets)
    ]
    for (const { expr } of queries) {
      const rated = expr.match(/(?:rate|increase)\(mcp_streams_\w+(?:\{[^}]*\})?\[\d+m\]\)/g) ?? []
      const counters = expr.match(/mcp_streams_\w+_total/g) ?? []
      expect([expr, rated.length]).toEqual([expr, counters.length])
      for (const rate of rated) expect(rate).toContain('_total')
      expect(expr.split('(')).toHaveLength(expr.split(')').length)
    }
  })
})
