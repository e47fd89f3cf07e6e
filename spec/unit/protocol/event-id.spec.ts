// Clients send ids back: each id can be written in one way only, and anything else is refused.

import { describe, expect, it } from '@jest/globals'
import { nanoid } from 'nanoid'
import { fc, times } from '../../helpers/property.js'
import {
  eventIdPrefix,
  formatPrimerId,
  formatStreamName,
  formatGoneId,
  isGoneId,
  parseEventId,
  parseStreamName
} from '../../../lib/protocol/event-id.js'

const ID = 'V1StGXR8_Z5jdHi6B-myT'
/** A listen channel: it answers no request. */
const CHANNEL = { id: ID, requestIds: [] }

describe('the name of a stream in a URL', () => {
  it('is the id that nanoid makes', () => {
    for (let i = 0; i < 100; i++) {
      const id = nanoid()
      expect(formatStreamName({ id, start: 0 })).toBe(id)
      expect(parseStreamName(id)).toEqual({ id, start: 0 })
    }
  })

  it('says where a later turn begins', () => {
    expect(formatStreamName({ id: ID, start: 12 })).toBe(`${ID}~12`)
    expect(parseStreamName(`${ID}~12`)).toEqual({ id: ID, start: 12 })
  })

  it.each([
    '',
    'a',
    ID.slice(1),
    `${ID}x`,
    ` ${ID.slice(1)}`,
    `${ID}\n`,
    ID.replace('V', 'Ü'),
    ID.replace('V', '%'),
    `${ID}~`,
    `${ID}~0`,
    `${ID}~01`,
    `${ID}~-1`,
    `${ID}~1.5`,
    `${ID}~1~2`,
    `${ID}~1234567890123456`,
    'x'.repeat(1e6)
  ])('is not %p', text => expect(parseStreamName(text)).toBeUndefined())
})

describe('an event id', () => {
  it('says the stream and the sequence', () => {
    expect(parseEventId(`${ID}.12`)).toEqual({ streamId: ID, sequence: 12 })
    expect(parseEventId(`${ID}.0`)).toEqual({ streamId: ID, sequence: 0 })
    expect(parseEventId(`${ID}.999999999999999`)).toEqual({
      streamId: ID,
      sequence: 999_999_999_999_999
    })
  })

  it('that was sent without an event says the cursor, whatever its count', () => {
    expect(formatPrimerId(CHANNEL, 0, 1)).toBe(`${ID}.0.1`)
    expect(parseEventId(`${ID}.0.1`)).toEqual({ streamId: ID, sequence: 0 })
    expect(parseEventId(`${ID}.7.1000000000`)).toEqual({ streamId: ID, sequence: 7 })
  })

  it('marks the error for missing events, as no other id does', () => {
    const told = formatGoneId(CHANNEL, 7)
    expect(parseEventId(told)).toEqual({ streamId: ID, sequence: 7 })
    expect(isGoneId(told)).toBe(true)
    for (const id of [
      `${ID}.7`,
      formatPrimerId(CHANNEL, 7, 1),
      formatPrimerId(CHANNEL, 7, 999_999_999),
      ''
    ]) {
      expect(isGoneId(id)).toBe(false)
    }
  })

  it.each([0, 1, 7, 9_999_999_999])('names the request that its stream answers: %d', requestId => {
    const stream = { id: ID, requestIds: [requestId] }
    expect(eventIdPrefix(stream)).toBe(`${ID}.r${requestId}.`)
    expect(parseEventId(`${eventIdPrefix(stream)}12`)).toEqual({
      streamId: ID,
      requestId,
      sequence: 12
    })
    expect(parseEventId(formatPrimerId(stream, 0, 1))).toEqual({
      streamId: ID,
      requestId,
      sequence: 0
    })
    const told = formatGoneId(stream, 999_999_999_999_999)
    expect([isGoneId(told), parseEventId(told)]).toEqual([
      true,
      { streamId: ID, requestId, sequence: 999_999_999_999_999 }
    ])
  })

  it.each([
    ['a text', ['1']],
    ['none', []],
    ['two', [1, 2]],
    ['a large one', [10_000_000_000]],
    ['a negative one', [-1]],
    ['a fraction', [1.5]],
    ['no number', [NaN]],
    ['no end', [Infinity]]
  ])('names no request where there is %s', (_what, requestIds) => {
    expect(eventIdPrefix({ id: ID, requestIds })).toBe(`${ID}.`)
  })

  it('reads back what was written', () => {
    const sequence = fc.integer({ min: 0, max: 999_999_999_999_999 })
    const count = fc.integer({ min: 1, max: 9_999_999_999 })
    fc.assert(
      fc.property(sequence, count, (sequence, count) => {
        expect(parseEventId(`${ID}.${sequence}`)).toEqual({ streamId: ID, sequence })
        expect(parseEventId(formatPrimerId(CHANNEL, sequence, count))).toEqual({
          streamId: ID,
          sequence
        })
      })
    )
  })

  const malformed = [
    ...[
      '',
      '.',
      ID,
      `${ID}.`,
      `.${ID}`,
      `${ID}..1`,
      `${ID}.-1`,
      `${ID}.+1`,
      `${ID}.01`,
      `${ID}.00`,
      `${ID}.1e3`,
      `${ID}.0x1`
    ],
    ...[
      `${ID}.1.`,
      `${ID}.1.0`,
      `${ID}.1.01`,
      `${ID}.1.1.1`,
      `${ID}.1.-1`,
      `${ID}.1,5`,
      `${ID}.1 `,
      ` ${ID}.1`,
      `${ID}. 1`,
      `${ID}.r1`,
      `${ID}.r.1`,
      `${ID}.r01.1`,
      `${ID}.r-1.1`,
      `${ID}.R1.1`,
      `${ID}.r1.r1.1`,
      `${ID}.1.r1`,
      `${ID}.r10000000000000.1`,
      `${ID}.r10000000000.1`
    ],
    ...[
      `${ID}.1\n`,
      `${ID}.1\r`,
      `${ID}.1\0`,
      `${ID}.\u0661`,
      `${ID}.１`,
      `${ID}.Infinity`,
      `${ID}.NaN`
    ],
    ...[
      `${ID}.1000000000000000`,
      `${ID}.${'9'.repeat(400)}`,
      `${ID}.1.${'9'.repeat(11)}`,
      `x${ID}.1`,
      `${ID.slice(1)}.1`
    ],
    ...[
      `${ID}.1, ${ID}.2`,
      `"${ID}.1"`,
      `${encodeURIComponent(ID)}%2E1`,
      '1',
      '42',
      'null',
      'undefined',
      '{}',
      'x'.repeat(1e6)
    ]
  ]

  it.each(malformed.map(text => [text.slice(0, 60), text]))('is not %j', (_shown, text) => {
    expect(parseEventId(text)).toBeUndefined()
  })

  it('can be written in one way only', () => {
    const near = fc.tuple(
      fc.constantFrom(ID, ID.slice(1), 'x'),
      fc.string({ unit: fc.constantFrom(...'.r019- x') })
    )
    fc.assert(
      fc.property(near, ([start, rest]) => {
        const text = start + rest
        const id = parseEventId(text)
        if (id === undefined) return
        const { streamId, requestId, sequence } = id
        const prefix = eventIdPrefix({
          id: streamId,
          requestIds: requestId === undefined ? [] : [requestId]
        })
        const count = text.slice(`${prefix}${sequence}.`.length)
        expect(`${prefix}${sequence}${count === '' ? '' : `.${Number(count)}`}`).toBe(text)
      }),
      { numRuns: times(2000) }
    )
  })
})
