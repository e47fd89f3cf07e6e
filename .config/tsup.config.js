// How dist/ is built.
import { readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import ts from 'typescript'
import { pageAsText } from './page.js'

// Packages that cannot be required, or not be bundled again: they are built in.
const INCLUDED = ['cookie', 'cookie-parser', 'cookie-signature', 'etag', 'mime', 'nanoid', 'obug']

/** Whose a package is, in its own words; the text of the license is the same as in ours. */
function noticeOf(name) {
  const folder = new URL(`../node_modules/${name}/`, import.meta.url)
  const files = readdirSync(folder)
  const file = [/^licen[cs]e/i, /^readme/i]
    .map(of => files.find(path => of.test(path)))
    .find(Boolean)
  const text = readFileSync(new URL(file, folder), 'utf8')
  const holders = text.match(/(?<=^Copyright (?:(?:\(c\)|©) )?)\d[^<(&\n]*[^<(&\s]/gim)
  if (!/MIT License/i.test(text) || holders === null)
    throw new Error(`${file} of ${name} has no copyright notice with the MIT License`)
  return `${name}, Copyright ${holders.join(', ')}`
}

/**
 * What CommonJS requires of Node, imported instead: in an ES module there is no `require`, and a
 * bundler can do no more about it once it is built in.
 */
const builtinsAsImports = {
  name: 'builtins-as-imports',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /./ }, ({ kind, path }) =>
      kind === 'require-call' && isBuiltin(path)
        ? { path: path.replace(/^(?!node:)/, 'node:'), namespace: 'required' }
        : undefined
    )
    onLoad({ filter: /./, namespace: 'required' }, ({ path }) => ({
      contents: `export * from '${path}'\nexport { default } from '${path}'`
    }))
  }
}

/**
 * Comments are for who reads the sources, and the declarations have what users need: V8 would keep
 * them for as long as the code is loaded. Those stay that tell a bundler something.
 */
const withoutComments = {
  name: 'without-comments',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]lib[/\\].*\.ts$/ }, ({ path }) => {
      const code = readFileSync(path, 'utf8')
      return {
        contents: uncommented(ts.createSourceFile(path, code, ts.ScriptTarget.Latest)),
        loader: 'ts'
      }
    })
  }
}

function uncommented(file) {
  const { text } = file
  const comments = new Map()
  const visit = node => {
    const before = ts.getLeadingCommentRanges(text, node.pos) ?? []
    const behind = ts.getTrailingCommentRanges(text, node.end) ?? []
    for (const { pos, end } of [...before, ...behind]) comments.set(pos, end)
    for (const child of node.getChildren(file)) visit(child)
  }
  visit(file)
  let [rest, from] = ['', 0]
  for (const [pos, end] of [...comments].sort(([a], [b]) => a - b)) {
    if (pos < from || text.slice(pos, end).includes('@__PURE__')) continue
    rest += text.slice(from, pos)
    from = end
  }
  return rest + text.slice(from)
}

const common = { target: 'node20', removeNodeProtocol: false }

const doors = [
  'backplane',
  'client',
  'client/node',
  'features/cookie',
  'inspector',
  'redis',
  'resources',
  'features/sessions',
  'features/tasks',
  'wires'
]

export default [
  {
    ...common,
    entry: {
      index: 'lib/index.ts',
      ...Object.fromEntries(doors.map(door => [`${door}/index`, `lib/${door}/index.ts`]))
    },
    format: ['esm', 'cjs'],
    splitting: true,
    treeshake: true,
    dts: true,
    clean: ['!command/**'],
    noExternal: INCLUDED.map(name => new RegExp(`^${name}(?:/|$)`)),
    esbuildPlugins: [builtinsAsImports, withoutComments, pageAsText],
    banner: {
      js: `/* Includes, by the MIT License, whose text is in LICENSE: ${INCLUDED.map(noticeOf).join('; ')} */`
    }
  },
  {
    ...common,
    entry: { 'command/index': 'lib/command/index.ts' },
    format: ['esm'],
    banner: { js: '#!/usr/bin/env node' },
    external: [
      '../index.js',
      '../features/cookie/index.js',
      '../features/sessions/index.js',
      '../redis/index.js',
      '../features/tasks/index.js'
    ]
  }
]
