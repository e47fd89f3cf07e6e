// Makes one file of an application with all packages that it needs, as its users would:
// `node bundle.js <bundler> <esm | cjs> <entry> <output> <folder that has the bundlers>`

import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

const [bundler, format, entry, output, folder] = process.argv.slice(2)

const bundlers = {
  async esbuild() {
    const { build } = await import('esbuild')
    await build({
      entryPoints: [entry],
      outfile: output,
      bundle: true,
      platform: 'node',
      format,
      logLevel: 'error'
    })
  },

  async rollup(load) {
    const { rollup } = load('rollup')
    const [commonjs, json, nodeResolve] = ['commonjs', 'json', 'node-resolve'].map(
      name => load(`@rollup/plugin-${name}`).default
    )
    const plugins = [nodeResolve({ preferBuiltins: true }), commonjs(), json()]
    const bundle = await rollup({ input: entry, plugins })
    await bundle.write({ file: output, format, inlineDynamicImports: true })
  },

  async webpack(load) {
    const compiler = load('webpack')({
      mode: 'production',
      target: 'node20',
      entry,
      output: {
        path: dirname(output),
        filename: basename(output),
        ...(format === 'esm' && { module: true, chunkFormat: 'module' })
      },
      optimization: { minimize: false },
      experiments: { outputModule: format === 'esm' }
    })
    const stats = await new Promise((resolve, reject) =>
      compiler.run((error, done) => (error ? reject(error) : resolve(done)))
    )
    if (stats.hasErrors()) throw new Error(stats.toString('errors-only'))
  }
}

await bundlers[bundler](folder && createRequire(join(folder, 'package.json')))
