// The work of the tool: a word index of real documents, the READMEs of the packages installed here.

import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

const packages = new URL('../../node_modules/', import.meta.url)

/** Reads `count` READMEs, in the order of their packages' names. */
export async function readDocuments(count) {
  const documents = []
  for (const name of (await readdir(packages)).sort()) {
    if (documents.length === count) break
    const text = await readFile(new URL(`${name}/README.md`, packages), 'utf8').catch(
      () => undefined
    )
    if (text) documents.push({ name, text })
  }
  if (documents.length < count)
    throw new Error(`Found ${documents.length} of ${count} READMEs in node_modules: npm ci?`)
  return documents
}

/**
 * Indexes one document after the other, slowly, and tells `onStep` of each; returns the result of a
 * tool.
 */
export async function indexDocuments(documents, signal, onStep) {
  const index = new Map()
  for (const [i, document] of documents.entries()) {
    await sleep(100, undefined, { signal })
    const message = `${document.name}: ${addDocument(index, document)} words`
    await onStep({ progress: i + 1, total: documents.length, message })
  }
  const text = `${documents.length} documents, ${index.size} words`
  return { content: [{ type: 'text', text }], structuredContent: Object.fromEntries(index) }
}

/**
 * Adds a document to `index` (word: names of the documents that hold it), and returns how many
 * words it holds.
 */
export function addDocument(index, { name, text }) {
  const words = new Set(text.toLowerCase().match(/\p{L}{3,}/gu))
  for (const word of words) index.set(word, [...(index.get(word) ?? []), name])
  return words.size
}
