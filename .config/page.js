// How the files of the inspector's page are built: each, with what it imports, into a module that
// exports its text, for `import { text } from './page/style.css?text'`.
import { buildSync } from 'esbuild'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** What is served: TypeScript as JavaScript, and without comments. */
function served(path) {
  if (path.endsWith('.html')) return readFileSync(path, 'utf8')
  const { outputFiles } = buildSync({
    entryPoints: [path],
    bundle: true,
    format: 'esm',
    minifyWhitespace: true,
    charset: 'utf8',
    write: false
  })
  return outputFiles[0].text
}

/** For esbuild. */
export const pageAsText = {
  name: 'page-as-text',
  setup({ onResolve, onLoad }) {
    // With what follows the name: what else knows about styles leaves them alone.
    onResolve({ filter: /\?text$/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, path)
    }))
    onLoad({ filter: /\?text$/ }, ({ path }) => ({
      contents: `export const text = ${JSON.stringify(served(path.replace(/\?text$/, '')))}`
    }))
  }
}

function forJest(path, { supportsStaticESM }) {
  return `${supportsStaticESM ? 'export const text' : 'exports.text'} = ${JSON.stringify(served(path))}`
}

/** For Jest. */
export default {
  process: (_source, path, options) => ({ code: forJest(path, options) }),
  // What it imports may have changed, too.
  getCacheKey: (_source, path, options) =>
    createHash('sha256').update(forJest(path, options)).digest('hex')
}
