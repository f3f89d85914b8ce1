#!/usr/bin/env node
'use strict'

import React, { useState, useEffect as onEffect } from 'react'
import * as path from 'node:path'
import './polyfill.js'
import theme from '../theme.json' with { type: 'json' }
export { default as Card, Deck } from './cards/index.js'
export * from './rules.js'
export * as helpers from './helpers.js'

const fs = require('fs')
const { readFile, writeFile: save } = require('fs/promises')
const log = require('debug').extend
const lazy = () => import('./lazy.js')

const LIMIT = 10
let current = null, previous
export const options = {
  limit: LIMIT,
  theme,
  onDraw: (card) => shuffle(card),
  format(card) {
    return card.name
  },
  nested: { async run() { await save(LIMIT) } },
}

export default function Table({ players, onClose }) {
  const [open, setOpen] = useState(false)
  const label = path.join(players.name, 'x')
  onEffect(() => {
    const timer = setInterval(tick, LIMIT)
    return () => clearInterval(timer)
  }, [open])
  const handleClick = (event) => {
    event.preventDefault()
    setOpen(!open)
  }
  return (
    <Panel.Body title={label} onClick={handleClick}>
      {players.map((player) => (
        <Player key={player.id} {...player} />
      ))}
      <button onClick={onClose}>close</button>
    </Panel.Body>
  )
}

function* deal(cards = [], ...rest) {
  for (const card of cards) {
    yield card
  }
  yield* rest
}

async function shuffle(deck) {
  const { length } = deck
  function swap(a, b) {
    ;[deck[a], deck[b]] = [deck[b], deck[a]]
  }
  for (let i = length; i > 0; i--) swap(i, random(i))
  return deck?.cards?.flat()
}

class Deck extends Pile {
  static size = 52
  #secret = deal()
  draw = () => this.#top()

  constructor(cards) {
    super(cards)
    this.cards = cards
  }

  get top() {
    return this.cards.at(-1)
  }

  #top() {
    return new Card(this.top, Deck.size)
  }

  static from(list) {
    return new this(list.map(Card.parse))
  }
}

Deck.prototype.count = function () {
  return this.cards.length
}

module.exports.cut = function cut(deck) {
  return deck.slice(LIMIT)
}

exports.Rules = class Rules extends lib.Base {}

const memo = React.memo(Table)
describe('deck', () => {
  const deck = new Deck([])
  it('draws', async () => {
    expect(await deck.draw()).toBe(`${LIMIT}`)
  })
})
