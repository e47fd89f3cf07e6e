// What is known of a resource, so that bytes of two versions are never joined.
import { ResourceStreamError } from './stream-resource-error.js'
import {
  type Extent,
  extentOf,
  isChanged,
  validatorsOf,
  type Validators
} from './stream-resource-head.js'
import { type Found, unexpected } from './stream-resource-source.js'

export class KnownResource {
  /** Bytes of the whole, where they are known. */
  #size: number | undefined
  /** Those of the first answer. */
  #validators: Validators | undefined

  get size(): number | undefined {
    return this.#size
  }

  /** What `If-Range` may carry; `null`: nothing says that the rest would fit. */
  get strong(): string | null {
    return this.#validators?.strong ?? null
  }

  /**
   * Learns from an answer, and returns which bytes it has; throws where they do not fit behind
   * those that were received.
   */
  accept({ response, size: promised }: Found, received: number): Extent {
    const extent = extentOf(response)
    if (extent === undefined) throw unexpected('a range that makes no sense', response)
    const found = validatorsOf(response)
    const sizes = new Set([this.#size, promised, extent.size].filter(each => each !== undefined))
    if (this.#validators === undefined && sizes.size > 1)
      throw new ResourceStreamError('wrong-size', [...sizes].join(' or '))
    const validators = (this.#validators ??= found)
    const isWhole = response.status === 200
    const isOther = sizes.size > 1 || isChanged(validators, found)
    if (isOther || (received > 0 && isWhole && found.strong !== validators.strong))
      throw new ResourceStreamError('changed', 'it is not what it was when the transfer began')
    if (!isWhole && extent.start !== received)
      throw unexpected('another range than was asked for', response)
    ;[this.#size] = sizes
    return extent
  }
}
