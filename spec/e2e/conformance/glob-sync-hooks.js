// The loader hook of glob-sync.js. Adding to the `fs` object is not enough: what a built-in exports
// by name is fixed.
const source = `
  export * from 'node:fs'
  export { default } from 'node:fs'
  export const globSync = () => { throw new Error('globSync needs Node 22; testing a server does not call it') }`

const url = `data:text/javascript,${encodeURIComponent(source)}`

export const resolve = (specifier, context, next) =>
  specifier === 'fs' ? { url, shortCircuit: true } : next(specifier, context)
