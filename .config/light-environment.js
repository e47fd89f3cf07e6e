// Jest's Node environment without what takes processor time from specs, and gives them nothing.
import { TestEnvironment as NodeEnvironment } from 'jest-environment-node'
import vm from 'node:vm'
import { keepCode } from './code-cache.js'
import { StorageWatch } from './storage-watch.js'

// Node 20.18 and later.
const PLAIN = vm.constants?.DONT_CONTEXTIFY

// Jest's are a hundred. Node reads the stack of each error that destroys a stream, and Jest maps
// each of its frames to the source then.
const STACK_FRAMES = 20

keepCode()

export default class LightEnvironment extends NodeEnvironment {
  #storages = new StorageWatch()

  // An ordinary global object. Jest hands a Proxy to vm.createContext(), and V8 then asks that Proxy
  // about every global that code names: `Array`, `JSON`, `Promise` cost a microsecond each time, in
  // the library, in the SDKs and in specs alike. Specs that compute rather than wait take twice the
  // processor time so.
  constructor(...args) {
    const { createContext } = vm
    // The constructor makes the context, and offers no other way to say of which kind.
    if (PLAIN !== undefined) vm.createContext = () => createContext(PLAIN)
    try {
      super(...args)
    } finally {
      vm.createContext = createContext
    }
  }

  async setup() {
    await super.setup()
    this.#storages.watch()
    for (const realm of [globalThis, this.global]) realm.Error.stackTraceLimit = STACK_FRAMES
  }

  async teardown() {
    this.#storages.end()
    await super.teardown()
  }
}
