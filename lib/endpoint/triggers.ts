// What makes a request special to a part of the middleware: most requests are special to none, and
// go straight to the endpoint.
import type { IncomingMessage } from 'node:http'
import { parameterNames } from '../protocol/link-header.js'

/** What the core alone can tell of a request. */
type Trait =
  /** The middleware has sent it itself. */
  | 'own'
  /** It has come to an instance that leaves. */
  | 'leaving'
  /** Option `owner` could not tell who it is from. */
  | 'owner-failed'
  /** An id of it, or of its session, is too long to be kept, or cannot be held. */
  | 'oversized'
  /** An id of it is a number that JavaScript cannot hold. */
  | 'inexact'
  /** A message answers a request of the endpoint, or one of ours. */
  | 'answers'

/** A part is asked about a request that has any one of them, of whatever value. `all`: each. */
export type Triggers = 'all' | Partial<Named>

interface Named {
  /** Names in lower case. */
  readonly headers: readonly string[]
  /** Names of parameters in the query of its URL. */
  readonly query: readonly string[]
  /** Methods of HTTP. */
  readonly verbs: readonly string[]
  /** Methods of JSON-RPC. */
  readonly methods: readonly string[]
  /** Members of `params`. */
  readonly params: readonly string[]
  /** Members of `_meta` in `params`. */
  readonly meta: readonly string[]
  readonly traits: readonly Trait[]
}

/** A set of parts, a bit for each. */
export type Parts = number

/** All that is special to a part, and to which parts. */
type Special = Map<string, Parts>

/** The bit that each request has. */
const EACH: Parts = 1
/** Bits that a part may have of its own. Parts beyond that are asked about each request. */
const MOST_PARTS = 30

/** What is special to the parts of one instance, compiled once. */
export class TriggerTable {
  readonly #parts = new Map<Triggers, Parts>()
  readonly #special: Readonly<Record<keyof Named, Special>> = {
    headers: new Map(),
    query: new Map(),
    verbs: new Map(),
    methods: new Map(),
    params: new Map(),
    meta: new Map(),
    traits: new Map()
  }

  /** What stands for a part with these triggers. Default: it is asked about each request. */
  add(triggers: Triggers = 'all'): Parts {
    if (triggers === 'all') return EACH
    const known = this.#parts.get(triggers)
    if (known !== undefined) return known
    const part = this.#parts.size < MOST_PARTS ? 2 << this.#parts.size : EACH
    this.#parts.set(triggers, part)
    for (const [kind, names] of Object.entries(triggers)) {
      const special = this.#special[kind as keyof Named]
      for (const name of names) special.set(name, (special.get(name) ?? 0) | part)
    }
    return part
  }

  /** To whom a request is special by its head. */
  byHead({ headers, method = '', url = '' }: IncomingMessage): Parts {
    let parts = EACH | (this.#special.verbs.get(method) ?? 0)
    for (const [name, some] of this.#special.headers) if (headers[name] !== undefined) parts |= some
    if (url.includes('?'))
      for (const name of parameterNames(url)) parts |= this.#special.query.get(name) ?? 0
    return parts
  }

  /** To whom it is special by a message in it. */
  byMessage(method: string, params: object, meta: object | undefined): Parts {
    let parts = this.#special.methods.get(method) ?? 0
    for (const [name, some] of this.#special.params) if (name in params) parts |= some
    if (meta === undefined) return parts
    for (const [name, some] of this.#special.meta) if (name in meta) parts |= some
    return parts
  }

  byTrait(trait: Trait): Parts {
    return this.#special.traits.get(trait) ?? 0
  }
}
