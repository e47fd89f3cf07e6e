/** A file as its text, which is how `.config/page.js` builds it in. */
declare module '*?text' {
  export const text: string
}
