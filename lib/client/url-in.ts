/** The URL that something stands for; `undefined`: it is none. */
export function urlIn(text: unknown, base?: URL): URL | undefined {
  return typeof text === 'string' && URL.canParse(text, base?.href)
    ? new URL(text, base)
    : undefined
}
