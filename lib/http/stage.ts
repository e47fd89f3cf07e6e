// A stage of the pipeline: what happens to a response on its way to the wire.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'

/**
 * In which order stages stand, from the endpoint to the wire, whenever they are added.
 * - `rewrite`: messages are changed first, so that all others see what the client will.
 * - `record`: the whole answer is written down, for a repetition of its request.
 * - `capture`: what is taken goes to a stream, and comes back as what its reader writes.
 * - `observe`: reads along where the answer was not taken.
 * - `cookie`: whatever the head is in the end, it carries the cookie.
 */
export const STAGE_ORDER = ['rewrite', 'record', 'capture', 'observe', 'cookie'] as const

export type StageKind = (typeof STAGE_ORDER)[number]

/** What can be done to a response. Arguments are those of Node's methods. */
export interface Layer {
  writeHead(args: readonly unknown[]): ServerResponse
  write(args: readonly unknown[]): boolean
  end(args: readonly unknown[]): ServerResponse
  flushHeaders(): void
  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse
  getHeader(name: string): OutgoingHttpHeader | undefined
  destroy(error?: Error): ServerResponse
  /** Node asks for a head that has not been written. */
  implicitHeader(): void
  /** Whether there is a head, as far as those behind this layer are concerned. */
  readonly hasHead: boolean
}

/** Passes everything on; a stage overrides what it changes or observes. */
export abstract class Stage implements Layer {
  abstract readonly kind: StageKind
  next!: Layer

  writeHead(args: readonly unknown[]): ServerResponse {
    return this.next.writeHead(args)
  }

  write(args: readonly unknown[]): boolean {
    return this.next.write(args)
  }

  end(args: readonly unknown[]): ServerResponse {
    return this.next.end(args)
  }

  flushHeaders(): void {
    this.next.flushHeaders()
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    return this.next.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.next.getHeader(name)
  }

  destroy(error?: Error): ServerResponse {
    return this.next.destroy(error)
  }

  implicitHeader(): void {
    this.next.implicitHeader()
  }

  get hasHead(): boolean {
    return this.next.hasHead
  }
}

/** A stage that has to see the head, also where the endpoint writes its body without one. */
export abstract class HeadStage extends Stage {
  /** Called before anything that makes Node send a head. Default: nothing. */
  protected implyHead(): void {
    // For a stage that reads no such head.
  }

  override write(args: readonly unknown[]): boolean {
    this.implyHead()
    return this.next.write(args)
  }

  override end(args: readonly unknown[]): ServerResponse {
    this.implyHead()
    return this.next.end(args)
  }

  override flushHeaders(): void {
    this.implyHead()
    this.next.flushHeaders()
  }
}
