// How V8 keeps the properties of a request or a response that is about to be given more of them.

/**
 * Where an object that has been given another prototype shares its hidden classes, as all others
 * do: from Node 24 on.
 */
const SHARES_CLASSES = Number.parseInt(process.versions.v8) > 12

/**
 * Express gives each request and each response another prototype. Before Node 24, V8 then copies
 * the hidden class of that one object, with all its fifty properties, for each property that
 * anybody adds: together, several times what all else costs that a small call needs of us. A
 * property that is deleted and set again makes the object a plain hash table, in which the next
 * ones cost nothing.
 *
 * @param born the prototype of one that was given no other: its hidden classes are shared.
 * @param property one that it has itself.
 */
export function expectProperties(object: object, born: object, property: string): void {
  if (SHARES_CLASSES || Object.getPrototypeOf(object) === born) return
  const descriptor = Object.getOwnPropertyDescriptor(object, property)
  if (descriptor?.configurable !== true || !Object.isExtensible(object)) return
  Reflect.deleteProperty(object, property)
  Object.defineProperty(object, property, descriptor)
}
