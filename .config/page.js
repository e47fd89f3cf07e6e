// How the files of the inspector's page are built: each into a module that exports its text, for
// `import { text } from './page/style.css?text'`.
import { transformSync } from 'esbuild'
import { readFileSync } from 'node:fs'
import { extname, resolve } from 'node:path'

/** What is served: TypeScript as JavaScript, and without comments. */
function served(source, path) {
  const loader = extname(path).slice(1)
  return loader === 'html' ? source : transformSync(source, { loader, minifyWhitespace: true }).code
}

/** For esbuild. */
export const pageAsText = {
  name: 'page-as-text',
  setup({ onResolve, onLoad }) {
    // With what follows the name: what else knows about styles leaves them alone.
    onResolve({ filter: /\?text$/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, path)
    }))
    onLoad({ filter: /\?text$/ }, ({ path }) => {
      const file = path.replace(/\?text$/, '')
      const text = served(readFileSync(file, 'utf8'), file)
      return { contents: `export const text = ${JSON.stringify(text)}` }
    })
  }
}

/** For Jest. */
export default {
  process(source, path, { supportsStaticESM }) {
    const left = supportsStaticESM ? 'export const text' : 'exports.text'
    return { code: `${left} = ${JSON.stringify(served(source, path))}` }
  }
}
