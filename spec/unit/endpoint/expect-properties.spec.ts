// A request or a response that is about to be given more properties stays what it was.

import { expect, it } from '@jest/globals'
import { expectProperties } from '../../../lib/endpoint/node-internals.js'

class Born {
  mark: unknown = 1
  other = 2
}

const given = (): Born =>
  Object.setPrototypeOf(new Born(), Object.create(Born.prototype) as object) as Born

it('an object keeps its properties, their values and what may be done with them', () => {
  for (const value of [0, undefined, { deep: true }]) {
    const object = given()
    Object.defineProperty(object, 'mark', {
      value,
      enumerable: false,
      writable: false,
      configurable: true
    })
    const before = Object.getOwnPropertyDescriptors(object)
    expectProperties(object, Born.prototype, 'mark')
    expect(Object.getOwnPropertyDescriptors(object)).toEqual(before)
    expect(object).toBeInstanceOf(Born)
  }
})

it('an object that can be given none, or that has lost the property, is left alone', () => {
  for (const object of [
    Object.freeze(given()),
    Object.seal(given()),
    Object.preventExtensions(given())
  ]) {
    expectProperties(object, Born.prototype, 'mark')
    expect({ ...object }).toEqual({ mark: 1, other: 2 })
  }
  const object = given()
  expectProperties(object, Born.prototype, 'lost')
  expect({ ...object }).toEqual({ mark: 1, other: 2 })
})
