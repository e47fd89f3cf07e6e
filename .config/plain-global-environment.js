// Jest's Node environment with an ordinary global object.
//
// Jest hands a Proxy to vm.createContext(), and V8 then asks that Proxy about every global that code
// names: `Array`, `JSON`, `Promise` cost a microsecond each time, in the library, in the SDKs and in
// specs alike. Specs that compute rather than wait take twice the processor time so.
import { TestEnvironment as NodeEnvironment } from 'jest-environment-node'
import vm from 'node:vm'

// Node 20.18 and later.
const PLAIN = vm.constants?.DONT_CONTEXTIFY

export default class PlainGlobalEnvironment extends NodeEnvironment {
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
}
