// The one place where a response is patched: stages, from the endpoint to the wire.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import {
  ASKS_HEADERS_SENT,
  hasMadeHead,
  hasNativeWrite,
  METHOD_NAMES,
  methodsOf,
  type ResponseMethods,
  writeChunk
} from './node-internals.js'
import { type Layer, type Stage, STAGE_ORDER } from './stage.js'

/** Emits the events of a response in Node's place. */
export interface EventInterceptor {
  emit(event: string, args: unknown[]): boolean
}

type AnyMethod = (...args: unknown[]) => unknown

const PIPELINE = Symbol('express-mcp-streams.pipeline')

interface Piped {
  /** The first pipeline of the response; others are behind it. */
  [PIPELINE]?: ResponsePipeline
}

/** The one there is, or a new one behind a patch that has been made since, which has to stay. */
export function pipelineOf(res: ServerResponse): ResponsePipeline {
  const first = (res as Piped)[PIPELINE]
  if (first?.latest.isOnTop === true) return first.latest
  return new ResponsePipeline(res, first)
}

export class ResponsePipeline implements Layer {
  readonly res: ServerResponse
  /** Node's methods, or what those in front of us have patched over them. */
  readonly methods: ResponseMethods
  /** The memory of what is written may be reused once Node is done with it. */
  readonly isReusable: boolean
  /** From the endpoint to the wire. */
  #stages: readonly Stage[] = []
  #top: Layer = this
  /** The pipeline that is nearest to the endpoint; only the first one knows it. */
  latest: ResponsePipeline = this
  readonly #below: ResponsePipeline | undefined
  readonly #patches: ResponseMethods
  #showsHead = false
  /** The response is being written to the wire: `headersSent` is asked by the runtime. */
  isOnWire = false

  constructor(res: ServerResponse, first: ResponsePipeline | undefined) {
    this.res = res
    this.isReusable = hasNativeWrite(res)
    const methods = methodsOf(res)
    this.methods = ASKS_HEADERS_SENT && first === undefined ? onWire(methods) : methods
    this.#below = first?.latest
    this.#patches = first === undefined ? PATCHES : patchesOf(() => this.#top)
    if (first === undefined) (res as Piped)[PIPELINE] = this
    else first.latest = this
    Object.assign(res, this.#patches)
  }

  /** The response has not been patched since. */
  get isOnTop(): boolean {
    const { res } = this
    return METHOD_NAMES.every(
      name => (res as unknown as ResponseMethods)[name] === this.#patches[name]
    )
  }

  get top(): Layer {
    return this.#top
  }

  /** Of two stages of one kind, the one that is added later is nearer to the endpoint. */
  add(stage: Stage): void {
    if (this.#stages.length === 0) {
      this.#stages = [stage]
      stage.next = this
      this.#top = stage
      return
    }
    const order = STAGE_ORDER.indexOf(stage.kind)
    let at = 0
    for (const { kind } of this.#stages) if (STAGE_ORDER.indexOf(kind) < order) at++
    this.#stages = this.#stages.toSpliced(at, 0, stage)
    this.#link()
  }

  /** With the last stage, the response gets its methods back, but for those patched on top. */
  remove(stage: Stage): void {
    if (!this.#stages.includes(stage)) return
    this.#stages = this.#stages.filter(other => other !== stage)
    this.#link()
    if (this.#stages.length > 0) return
    const methods = this.res as unknown as Record<keyof ResponseMethods, unknown>
    for (const name of METHOD_NAMES)
      if (methods[name] === this.#patches[name]) methods[name] = this.methods[name]
  }

  #link(): void {
    const stages = this.#stages
    for (let i = 0; i < stages.length; i++) (stages[i] as Stage).next = stages[i + 1] ?? this
    this.#top = stages[0] ?? this
  }

  /** From now on `headersSent` tells what the stages say. */
  showHead(): void {
    if (this.#showsHead) return
    this.#showsHead = true
    Object.defineProperty(this.res, 'headersSent', HEADERS_SENT)
  }

  /** Returns what emitted events before: Node, or those who have patched it. */
  interceptEvents(interceptor: EventInterceptor): AnyMethod {
    const { res } = this
    const emitter = res.emit as AnyMethod
    const emit = (event: string | symbol, ...args: unknown[]): boolean =>
      interceptor.emit(event as string, args)
    res.emit = emit
    return emitter
  }

  /** Replaces a method of Node's. One that other code has patched stays as it is. */
  replace(name: string, method: AnyMethod): void {
    const { res } = this
    if (Object.hasOwn(res, name) || !(name in res)) return
    ;(res as unknown as Record<string, AnyMethod>)[name] = method
  }

  // Layer: the wire

  writeHead(args: readonly unknown[]): ServerResponse {
    return this.methods.writeHead.apply(this.res, args as unknown[])
  }

  write(args: readonly unknown[]): boolean {
    if (this.isReusable) return writeChunk(this.res, args)
    return this.methods.write.apply(this.res, args as unknown[])
  }

  end(args: readonly unknown[]): ServerResponse {
    return this.methods.end.apply(this.res, args as unknown[])
  }

  flushHeaders(): void {
    this.methods.flushHeaders.call(this.res)
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    return this.methods.setHeader.call(this.res, name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.methods.getHeader.call(this.res, name)
  }

  destroy(error?: Error): ServerResponse {
    return this.methods.destroy.call(this.res, error)
  }

  implicitHeader(): void {
    this.methods._implicitHeader.call(this.res)
  }

  get hasHead(): boolean {
    return this.#below === undefined ? hasMadeHead(this.res) : this.#below.top.hasHead
  }
}

function patchesOf(topOf: (res: ServerResponse) => Layer): ResponseMethods {
  return {
    writeHead(this: ServerResponse, ...args) {
      return topOf(this).writeHead(args)
    },
    write(this: ServerResponse, ...args) {
      return topOf(this).write(args)
    },
    end(this: ServerResponse, ...args) {
      return topOf(this).end(args)
    },
    flushHeaders(this: ServerResponse) {
      topOf(this).flushHeaders()
    },
    setHeader(this: ServerResponse, name, value) {
      return topOf(this).setHeader(name, value)
    },
    getHeader(this: ServerResponse, name) {
      return topOf(this).getHeader(name)
    },
    destroy(this: ServerResponse, error) {
      return topOf(this).destroy(error)
    },
    _implicitHeader(this: ServerResponse) {
      topOf(this).implicitHeader()
    }
  }
}

/** The same functions for every response: a call that waits should not cost ten closures. */
const PATCHES = patchesOf(res => ((res as Piped)[PIPELINE] as ResponsePipeline).top)

/** One descriptor for all responses keeps their shapes alike. */
const HEADERS_SENT: PropertyDescriptor = {
  configurable: true,
  get(this: Piped) {
    const pipeline = this[PIPELINE] as ResponsePipeline
    return (pipeline.isOnWire ? pipeline : pipeline.latest.top).hasHead
  }
}

/** The same methods, which find the runtime's own `headersSent`. */
function onWire(methods: ResponseMethods): ResponseMethods {
  const wrapped = METHOD_NAMES.map(name => {
    const method = methods[name] as AnyMethod
    function call(this: Piped, ...args: unknown[]): unknown {
      const pipeline = this[PIPELINE] as ResponsePipeline
      const { isOnWire } = pipeline
      pipeline.isOnWire = true
      try {
        return method.apply(this, args)
      } finally {
        pipeline.isOnWire = isOnWire
      }
    }
    return [name, call] as const
  })
  return Object.fromEntries<unknown>(wrapped) as unknown as ResponseMethods
}
