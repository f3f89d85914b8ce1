# frozen_string_literal: true

require 'json'
require "active_support/core_ext"
require_relative '../lib/shelf'
require_relative 'book'
autoload :Catalogue, 'library/catalogue'

module Library
  LIMIT = 3
  GENRES = %w[crime poetry].freeze

  class Error < StandardError; end

  module Countable
    def self.included(base)
      base.extend(ClassMethods)
    end

    def count
      items.size
    end

    module ClassMethods
      def build(*args, **options, &block)
        new(*args, **options).tap(&block)
      end
    end
  end

  class Shelf < Base::Furniture
    include Countable
    include Enumerable, Comparable
    extend Forwardable
    prepend Audit::Trail

    attr_accessor :books, :label
    attr_reader :size
    def_delegators :@books, :first, :last
    validates :label, presence: true
    has_many :readers, -> { order(:name) }

    @registry = {}

    class << self
      def registry
        @registry ||= Hash.new { |hash, key| hash[key] = create(key) }
      end
    end

    def initialize(label, size: LIMIT)
      super()
      @label = label
      @size = size
      @books = []
    end

    def self.open(path)
      data = JSON.parse(File.read(path))
      shelf = new(data['label'])
      data.fetch('books').each do |row|
        shelf << Book.new(row)
      end
      shelf
    rescue Errno::ENOENT => error
      raise Error, error.message
    end

    def <<(book)
      raise Error unless fits?(book)

      books.push(book)
      notify book, :added
      self
    end

    def each(&block)
      return to_enum(:each) unless block_given?

      books.each { |book| yield book if visible?(book) }
    end

    def fits?(book)
      total = books.sum(&:width) + book.width
      total <= capacity
    end

    def label=(value)
      @label = value.strip
    end

    alias add <<

    private

    def capacity
      size * Measure::CM
    end

    def visible?(book) = book.genre != GENRES.first
  end
end

class Library::Shelf::Drawer < Library::Shelf
  def open_all
    lambda { |key| unlock key }.call(key)
  end
end

def helper(name)
  Library::Shelf.open("#{name}.json").map(&:title)
end

puts helper(ARGV[0])
