// Bundles the fuzzer with the sources of the library, so that no build is needed, and runs it.

import { build } from 'esbuild'
import { mkdir } from 'node:fs/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'

const folder = fileURLToPath(new URL('../../node_modules/.cache/fuzz/', import.meta.url))
await mkdir(folder, { recursive: true })
const outfile = `${folder}command-${process.pid}.mjs`
await build({
  entryPoints: [fileURLToPath(new URL('command.ts', import.meta.url))],
  outfile,
  bundle: true,
  packages: 'external',
  platform: 'node',
  target: 'node20',
  format: 'esm',
  sourcemap: 'inline',
  logLevel: 'warning'
})
process.setSourceMapsEnabled(true)
await import(pathToFileURL(outfile).href)
