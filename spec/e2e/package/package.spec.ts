// The package as users get it: packed, checked, installed into empty projects, and run there.
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DOORS_WORK, included, manifest, Project, root, run } from './project.js'

const tool = (name: string) => join(root, 'node_modules/.bin', name)

const served = {
  link: expect.stringMatching(/^<\?stream=[\w-]{21}>; rel="stream"$/),
  body: expect.stringContaining('data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'),
  current: expect.stringMatching(/^[\w-]{21}$/)
}

const streamed = { status: 206, uri: 'files:///stream-file.cjs', text: '// Asks a server' }

const inspected = { title: 'Inspector: express-mcp-streams', event: 'data: {"at":' }

let folder: string
let tarball: string
let files: string[]

beforeAll(async () => {
  await run(process.execPath, ['.config/ensure-dist.js'], root)
  folder = await mkdtemp(join(tmpdir(), 'express-mcp-streams-'))
  const packed = await run(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--pack-destination', folder],
    root
  )
  const [report] = JSON.parse(packed) as [{ filename: string; files: { path: string }[] }]
  tarball = join(folder, report.filename)
  files = report.files.map(file => file.path)
})

afterAll(() => rm(folder, { recursive: true, force: true }))

/** Every file that `exports` of package.json names. */
function exported(node: object | string = manifest.exports): string[] {
  return typeof node === 'string'
    ? [node.replace(/^\.\//, '')]
    : Object.values(node).flatMap(exported)
}

describe('the tarball', () => {
  it('holds dist, the readme, the changelog and the license, and nothing else', () => {
    const others = files.filter(path => !path.startsWith('dist/'))
    expect(others.sort()).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'])
    expect(
      files.filter(path => path.startsWith('dist/') && !/\.(js|cjs|d\.ts|d\.cts)$/.test(path))
    ).toEqual([])
  })

  it('holds every file that exports names', () => {
    expect(files).toEqual(expect.arrayContaining(exported()))
  })

  it('names no path of the machine that built it', async () => {
    for (const path of files) {
      expect([path, (await readFile(join(root, path), 'utf8')).includes(root)]).toEqual([
        path,
        false
      ])
    }
  })

  it('says whose the packages are that it includes', async () => {
    const code = files.filter(path => /\.c?js$/.test(path)).map(path => join(root, path))
    expect(code.flatMap(included)).toEqual(expect.arrayContaining(['cookie-parser', 'etag']))
    for (const file of code.filter(path => included(path).length > 0)) {
      const notice = /\/\* Includes, by the MIT License, .+ \*\//.exec(await readFile(file, 'utf8'))
      for (const name of included(file))
        expect(notice?.[0]).toMatch(new RegExp(` ${name}, Copyright \\d{4}[^;]* [A-Z]`))
    }
  })

  it('passes publint', async () => {
    await run(tool('publint'), ['run', tarball, '--strict'], root)
  })

  it('has the right types for import and for require', async () => {
    // Also for the classic resolution, which knows no exports: `typesVersions` names the doors.
    await run(tool('attw'), [tarball, '--no-definitely-typed', '--no-color'], root)
  })
})

describe('package.json', () => {
  it('says where the code, its page and its bugs are', () => {
    const { repository, homepage, bugs } = manifest
    expect(repository.url).toMatch(/^git\+https:\/\/github\.com\/.+\.git$/)
    const page = repository.url.slice('git+'.length, -'.git'.length)
    expect([homepage, bugs]).toEqual([`${page}#readme`, `${page}/issues`])
  })
})

describe('an ESM project', () => {
  let project: Project
  beforeAll(async () => {
    project = await Project.create({
      within: folder,
      type: 'module',
      tarball,
      beside: { express: 'express' }
    })
  })

  it('serves a stream on Express 5', async () => {
    expect(await project.run('express-5.js')).toEqual(served)
  })

  it('streams a file on Express 5', async () => {
    expect(await project.run('resources.js')).toEqual(streamed)
  })

  it('shows the inspector on Express 5', async () => {
    expect(await project.run('inspector.js')).toEqual(inspected)
  })

  it('has each entry point do its job', async () => {
    expect(await project.run('doors.js')).toEqual(DOORS_WORK)
  })

  it('shares the current stream between the required and the imported copy', async () => {
    const seen = (await project.run('both-copies.js')) as { link: string; current: string }
    expect(seen).toEqual(served)
    expect(seen.link).toContain(`stream=${seen.current}>`)
  })
})

describe('a CommonJS project', () => {
  let project: Project
  beforeAll(async () => {
    project = await Project.create({
      within: folder,
      type: 'commonjs',
      tarball,
      beside: { express: 'express4' }
    })
  })

  it('serves a stream on Express 4', async () => {
    expect(await project.run('express-4.cjs')).toEqual(served)
  })

  it('streams a file on Express 4', async () => {
    expect(await project.run('resources.cjs')).toEqual(streamed)
  })

  it('has each entry point do its job', async () => {
    expect(await project.run('doors.cjs')).toEqual(DOORS_WORK)
  })

  it('shows the inspector on Express 4', async () => {
    expect(await project.run('inspector.cjs')).toEqual(inspected)
  })
})

describe('a TypeScript project', () => {
  let project: Project
  beforeAll(async () => {
    project = await Project.create({
      within: folder,
      type: 'module',
      tarball,
      beside: {
        express: 'express',
        '@types/express': '@types/express',
        '@types/node': '@types/node'
      },
      tsconfig: {
        compilerOptions: {
          module: 'nodenext',
          target: 'es2022',
          strict: true,
          exactOptionalPropertyTypes: true,
          skipLibCheck: false,
          allowJs: true,
          outDir: 'out',
          rootDir: '.'
        },
        files: ['typescript.ts', 'typescript-cjs.cts']
      }
    })
    await run(tool('tsc'), ['--project', project.folder], project.folder)
  })

  it('compiles strictly and serves a stream as an ES module on Express 5', async () => {
    expect(await project.run('out/typescript.js')).toEqual(served)
  })

  it('compiles strictly and serves a stream as CommonJS on bare node:http', async () => {
    expect(await project.run('out/typescript-cjs.cjs')).toEqual(served)
  })
})
