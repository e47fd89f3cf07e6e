// The headers that pages of other origins need, for `cors()`.

/**
 * The headers that browsers must be allowed to send and to read, for clients on pages of other
 * origins: those of MCP over HTTP, of stream links, of `resumableFetch` and of `streamResource`.
 * Made for the `cors` package: `cors({ origin, ...corsHeaders })`. Both lists are frozen. Add to a
 * copy, for instance the `Mcp-Param-*` headers that tools of 2026-07-28 may ask for.
 */
export const corsHeaders: { readonly allowedHeaders: string[]; readonly exposedHeaders: string[] } =
  Object.freeze({
    allowedHeaders: frozen([
      'Authorization',
      'Content-Type',
      'Last-Event-ID',
      'Prefer',
      'Idempotency-Key',
      'Range',
      'If-Range',
      'Mcp-Session-Id',
      'MCP-Protocol-Version',
      'Mcp-Method',
      'Mcp-Name'
    ]),
    exposedHeaders: frozen([
      'Link',
      'Preference-Applied',
      'Mcp-Session-Id',
      'WWW-Authenticate',
      'Retry-After',
      'MCP-Resource-Uri',
      'Content-Disposition',
      'Content-Encoding',
      'Content-Length',
      'Content-Range',
      'Accept-Ranges',
      'ETag',
      'Last-Modified',
      'Date'
    ])
  })

/** The type is that of a mutable list, because `cors` accepts no other. */
function frozen(names: string[]): string[] {
  Object.freeze(names)
  return names
}
