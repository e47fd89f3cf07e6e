/** The URL in a text; `undefined` if it is not one. */
export function urlIn(text: unknown, base?: URL): URL | undefined {
  return typeof text === 'string' && URL.canParse(text, base?.href)
    ? new URL(text, base)
    : undefined
}
