// What an application says of its resources, and what it is told about who asks for one.
import type { IncomingHttpHeaders } from 'node:http'

/**
 * What `open` returns for a resource that exists and cannot be streamed: its client is pointed to
 * `resources/read`.
 */
export const NOT_STREAMABLE: unique symbol = Symbol.for('express-mcp-streams.not-streamable')

/** Bytes, at once or as they come: a web stream or one of Node's. */
export type ResourceBytes = Uint8Array | ReadableStream<Uint8Array> | NodeJS.ReadableStream

/**
 * What a resource is, in one of four ways: `path`, `body`, `range` or `redirect`. Everything else
 * says more of it, and may be left out.
 */
export interface Resource {
  /** A file of this machine. Its size, its time and its validator are read from the file itself. */
  readonly path?: string | undefined
  /**
   * The folder that the file at `path` must lie in once it is open, whatever has been moved or
   * linked meanwhile, and under names that do not begin with a dot. `path` must then be free of
   * links. Default: none, `path` is taken as it is, and links are followed.
   */
  readonly root?: string | undefined
  /**
   * The bytes, a stream of them, or a function that opens one. The function is called only when
   * bytes are sent: not for `HEAD`, and not to make out a download URL. A stream is destroyed when
   * its client goes.
   */
  readonly body?: ResourceBytes | (() => ResourceBytes | Promise<ResourceBytes>) | undefined
  /**
   * The bytes from `start` to `end`, both included. Needs `size`. Makes the resource resumable
   * where it has an `etag` or `lastModified`.
   */
  readonly range?:
    ((start: number, end: number) => ResourceBytes | Promise<ResourceBytes>) | undefined
  /**
   * Where the bytes are: an absolute URL that needs no credentials, such as a presigned one.
   * Answered with 302.
   */
  readonly redirect?: string | URL | undefined
  /** Default: by the ending of the name, else `application/octet-stream`. */
  readonly mimeType?: string | undefined
  /** A file name for `Content-Disposition`. Default: the last part of the path or of the URI. */
  readonly name?: string | undefined
  /**
   * Bytes of the whole resource. A source that gives fewer or more breaks the connection. Default:
   * unknown, but of a file or bytes.
   */
  readonly size?: number | undefined
  /**
   * A strong validator, with its quotes or without (RFC 9110, 8.8.3). Default: made from a file's
   * facts, or from the bytes.
   */
  readonly etag?: string | undefined
  /** Default: unknown, but of a file. */
  readonly lastModified?: Date | undefined
}

/** Who asks, and for how long. */
export interface ResourceContext {
  /** What the option `owner` says; `undefined`: nobody in particular. */
  readonly owner: string | undefined
  /** The MCP session of the request, or of the request that made out the download URL. */
  readonly sessionId: string | undefined
  /** Headers of the request that bytes are sent to. */
  readonly headers: IncomingHttpHeaders
  /** The most bytes that the client takes, as it has declared. */
  readonly maxStreamSize: number | undefined
  /** Aborts when the client goes, when its time is up, and when the server closes. */
  readonly signal: AbortSignal
  /**
   * Sends a request to the endpoint as this client would, through everything in front of it.
   * Resolves with the result.
   *
   * @throws where the endpoint answers with an error: the client gets that error, unless it is
   * caught.
   */
  readonly askEndpoint: (
    method: string,
    params?: Record<string, unknown>
  ) => Promise<Record<string, unknown>>
}

/**
 * What `open` may say of a URI: a resource, `NOT_STREAMABLE`, or nothing, which means not found.
 */
export type OpenedResource = Resource | typeof NOT_STREAMABLE | undefined | null

/** Tells what a URI stands for. */
export type OpenResource = (
  uri: string,
  context: ResourceContext
) => OpenedResource | Promise<OpenedResource>

/**
 * Tells whether an entry of `resources/list` (by its `uri`) or of `resources/templates/list` (by
 * its `uriTemplate`) can be streamed.
 */
export type IsStreamable = (uri: string, entry: Readonly<Record<string, unknown>>) => boolean

/** An entry for `resources/list`. */
export interface ResourceEntry {
  readonly uri: string
  readonly name: string
  readonly mimeType: string
  readonly size: number
  readonly streamable: true
}

/** The option `resources` of {@link mcpStreams}. */
export interface ResourcesOptions {
  /**
   * Tells what a URI stands for. What it throws is told to `onError`; the client gets an internal
   * error that says nothing of it.
   */
  readonly open: OpenResource
  /**
   * How bytes reach the client: in the response to its POST, or at a download URL of its own (which
   * needs `publicUrl`). A `redirect` is a redirect in both. Default: `direct`.
   */
  readonly mode?: 'direct' | 'download' | undefined
  /**
   * The URL of the endpoint as clients see it; `https:` outside of loopback. Download URLs are made
   * from it and never from what a request says of its host. In `direct` mode it serves clients that
   * do not accept the bytes in a response to POST. Default: none.
   */
  readonly publicUrl?: string | undefined
  /**
   * Which entries of the endpoint's lists are marked with `streamable: true`. The endpoint's own
   * mark stands. Default: none; `fileResources` and `readThrough`, which know what they can send,
   * bring their own.
   */
  readonly streamable?: boolean | IsStreamable | undefined
  /**
   * Milliseconds for which a download URL is good, unless it has been used up before. Default:
   * 300,000.
   */
  readonly ticketTtl?: number | undefined
  /**
   * Milliseconds for which nothing may happen: `open` says nothing, its source gives nothing, or
   * the client takes nothing. Then the transfer is broken off. `null`: no limit. Default: 120,000.
   */
  readonly timeout?: number | null | undefined
  /**
   * What `fileResources` brings along for the endpoint's own `resources/list`. Not used by the
   * middleware.
   */
  readonly list?: (() => Promise<readonly ResourceEntry[]>) | undefined
}

/** The option with its defaults filled in. */
export interface ResourceSettings {
  readonly open: OpenResource
  readonly mode: 'direct' | 'download'
  readonly publicUrl: string | undefined
  readonly streamable: boolean | IsStreamable
  readonly ticketTtl: number
  readonly timeout: number | null
}
