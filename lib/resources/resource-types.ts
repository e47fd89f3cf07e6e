// What an application says of its resources, and what it is told about who asks for one.
import type { IncomingHttpHeaders } from 'node:http'

/**
 * What `open` returns for a resource that exists but cannot be streamed: the client is told to use
 * `resources/read`.
 */
export const NOT_STREAMABLE: unique symbol = Symbol.for('express-mcp-streams.not-streamable')

/** Bytes, at once or as they come: a web stream or a Node stream. */
export type ResourceBytes = Uint8Array | ReadableStream<Uint8Array> | NodeJS.ReadableStream

/**
 * What a resource is: it has one of `path`, `body`, `range` and `redirect`. All other members say
 * more about it, and may be left out.
 */
export interface Resource {
  /** A file on this machine. Size, time and validator are read from the file itself. */
  readonly path?: string | undefined
  /**
   * The folder that the file at `path` must lie in once it is open, even if something was moved or
   * linked meanwhile, and under names that do not begin with a dot. `path` must then have no links.
   * Default: none; `path` is taken as it is, and links are followed.
   */
  readonly root?: string | undefined
  /**
   * The bytes, a stream of them, or a function that opens one. The function is called only when
   * bytes are sent: not for `HEAD`, and not when a download URL is made. A stream is destroyed when
   * its client goes.
   */
  readonly body?: ResourceBytes | (() => ResourceBytes | Promise<ResourceBytes>) | undefined
  /**
   * Returns the bytes from `start` to `end`, both included. Needs `size`. Makes the resource
   * resumable if it has an `etag` or `lastModified`.
   */
  readonly range?:
    ((start: number, end: number) => ResourceBytes | Promise<ResourceBytes>) | undefined
  /**
   * Where the bytes are: an absolute URL that needs no credentials, such as a presigned one.
   * Answered with 302.
   */
  readonly redirect?: string | URL | undefined
  /** Default: by the extension of the name, else `application/octet-stream`. */
  readonly mimeType?: string | undefined
  /** A file name for `Content-Disposition`. Default: the last part of the path or of the URI. */
  readonly name?: string | undefined
  /**
   * Bytes of the whole resource. If the source gives fewer or more, the connection is destroyed.
   * Default: that of the file or of the bytes, else unknown.
   */
  readonly size?: number | undefined
  /**
   * A strong validator, with its quotes or without (RFC 9110, 8.8.3). Default: made from the facts
   * of the file, or from the bytes.
   */
  readonly etag?: string | undefined
  /** Default: that of the file, else unknown. */
  readonly lastModified?: Date | undefined
}

/** Who asks, and for how long. */
export interface ResourceContext {
  /** What the option `owner` says; `undefined`: nobody in particular. */
  readonly owner: string | undefined
  /** The MCP session of the request, or of the request for the download URL. */
  readonly sessionId: string | undefined
  /** Headers of the request that is answered with the bytes. */
  readonly headers: IncomingHttpHeaders
  /** The most bytes that the client accepts, as it has declared. */
  readonly maxStreamSize: number | undefined
  /** Aborts when the client goes, when its time is up, and when the server closes. */
  readonly signal: AbortSignal
  /**
   * Sends a request to the endpoint as this client would, through everything in front of it.
   * Resolves with the result.
   *
   * @throws if the endpoint answers with an error: the client gets that error, unless it is caught.
   */
  readonly askEndpoint: (
    method: string,
    params?: Record<string, unknown>
  ) => Promise<Record<string, unknown>>
}

/**
 * What `open` may return: a resource, `NOT_STREAMABLE`, or nothing, which means not found.
 */
export type OpenedResource = Resource | typeof NOT_STREAMABLE | undefined | null

/** Says what a URI stands for. */
export type OpenResource = (
  uri: string,
  context: ResourceContext
) => OpenedResource | Promise<OpenedResource>

/**
 * Says whether an entry of `resources/list` (by its `uri`) or of `resources/templates/list` (by its
 * `uriTemplate`) can be streamed.
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
   * Says what a URI stands for. If it throws, `onError` is called with the error; the client gets
   * an internal error without details.
   */
  readonly open: OpenResource
  /**
   * How bytes reach the client: in the response to its POST (`direct`), or from a download URL that
   * is made for it (`download`, which needs `publicUrl`). A `redirect` is a redirect in both modes.
   * Default: `direct`.
   */
  readonly mode?: 'direct' | 'download' | undefined
  /**
   * The URL of the endpoint as clients see it; `https:` outside of loopback. Download URLs and
   * links are made from it, and never from the host that a request names. In `direct` mode download
   * URLs are for clients that do not accept the bytes in a response to POST. Default: none; links
   * are relative to the endpoint.
   */
  readonly publicUrl?: string | undefined
  /**
   * Which entries of the endpoint's lists are marked with `streamable: true`. An entry that the
   * endpoint has marked itself stays as it is. Default: none; `fileResources` and `readThrough`,
   * which know what they can send, bring their own.
   */
  readonly streamable?: boolean | IsStreamable | undefined
  /**
   * Milliseconds for which a download URL is valid, and a link that names no time of its own. It
   * ends sooner, ten seconds after the resource was first delivered whole to a request without
   * `Range`. Default: 300,000.
   */
  readonly ticketTtl?: number | undefined
  /**
   * Milliseconds without progress after which a transfer is broken off: `open` does not answer, its
   * source gives nothing, or the client takes nothing. `null`: no limit. Default: 120,000.
   */
  readonly timeout?: number | null | undefined
  /**
   * What `fileResources` provides for the endpoint's own `resources/list`. Not used by the
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
