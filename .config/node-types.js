// Says in the built types that they need those of Node, for projects whose `types` names nothing; but
// not in those of the client, which pages use. The bundler of the types drops such a line (it looks
// for it under the name of the source).
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const dist = fileURLToPath(new URL('../dist/', import.meta.url))
const REFERENCE = '/// <reference types="node" />\n'

/** A file of types and all of ours that it imports. */
function withImports(file, seen = new Set()) {
  if (seen.has(file)) return seen
  seen.add(file)
  const [own, types] = file.endsWith('.cts') ? ['.cjs', '.d.cts'] : ['.js', '.d.ts']
  for (const [, name] of readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g))
    withImports(join(dirname(file), name.replace(own, types)), seen)
  return seen
}

const files = readdirSync(dist, { recursive: true })
  .filter(name => /\.d\.c?ts$/.test(name))
  .map(name => join(dist, name))
const ofPages = ['ts', 'cts'].flatMap(end => [...withImports(join(dist, `client/index.d.${end}`))])
for (const file of files) {
  const text = readFileSync(file, 'utf8')
  if (!ofPages.includes(file) && !text.startsWith(REFERENCE)) writeFileSync(file, REFERENCE + text)
}
