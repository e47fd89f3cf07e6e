// Keeps what V8 has made of a module's source, for the next spec file of this process that loads it.
//
// Jest compiles the library, the SDKs and Express anew for each spec file, because each has a
// context of its own. Going through their megabytes of source takes longer than most specs do.
import vm from 'node:vm'

const { SourceTextModule, compileFunction } = vm

class Codes {
  #codes = new Map()

  /** What is known of this very source. */
  find(name, source) {
    const known = this.#codes.get(name)
    return known?.source === source ? known.data : undefined
  }

  keep(name, source, data) {
    this.#codes.set(name, { source, data })
  }
}

const ofModules = new Codes()
const ofFunctions = new Codes()

function newModule(source, options) {
  const cachedData = ofModules.find(options.identifier, source)
  try {
    if (cachedData !== undefined) return new SourceTextModule(source, { ...options, cachedData })
  } catch (error) {
    // V8 takes nothing from before its flags changed, which is what specs of memory do.
    if (error.code !== 'ERR_VM_MODULE_CACHED_DATA_REJECTED') throw error
  }
  const made = new SourceTextModule(source, options)
  // Now, because a module that has run gives none.
  ofModules.keep(options.identifier, source, made.createCachedData())
  return made
}

function newFunction(source, params, options) {
  const cachedData = ofFunctions.find(options.filename, source)
  if (cachedData !== undefined) {
    const made = compileFunction(source, params, { ...options, cachedData })
    if (!made.cachedDataRejected) return made
  }
  const made = compileFunction(source, params, { ...options, produceCachedData: true })
  ofFunctions.keep(options.filename, source, made.cachedData)
  return made
}

/** From here on, whatever this process compiles by way of `node:vm`. */
export function keepCode() {
  vm.SourceTextModule = new Proxy(SourceTextModule, {
    construct: (_, [source, options]) => newModule(source, options)
  })
  vm.compileFunction = newFunction
}
