using System;
using System.Collections.Generic;
using static System.Math;
using Json = Newtonsoft.Json.Linq.JObject;
global using Shop.Core;

[assembly: InternalsVisibleTo("Shop.Tests")]

namespace Shop.Orders
{
    public delegate void Changed<T>(Order order, T detail);

    public enum Status { Open, Paid = 2, [Obsolete] Lost }

    public interface IPriced : IDisposable
    {
        decimal Price { get; }
        void Discount(Rate rate);
    }

    [Serializable]
    public partial class Order : Entity<Guid>, IPriced
    {
        private const int MaxItems = 10;
        private readonly List<Item> _items = new(), _gone;
        public static Order Empty { get; } = new Order();
        public event Changed<int>? OnChanged;
        public decimal Price => _items.Sum(item => item.Price);

        [JsonProperty("status")]
        public Status Status { get; private set; } = Status.Open;

        public Order(IEnumerable<Item> items = null) : base(Guid.NewGuid())
        {
            _items = items?.ToList() ?? new List<Item>();
        }

        ~Order() => Dispose();

        public Item this[int at] => _items[at];

        public static Order operator +(Order left, Order right) => Merge(left, right);

        [Obsolete("use Pay")]
        [Audit(typeof(Payment))]
        public async Task<Receipt> PayAsync<TPayment>(TPayment payment, CancellationToken token)
            where TPayment : Payment, new()
        {
            int count = Max(_items.Count, MaxItems);
            if (payment is Card card && card.Valid())
            {
                await card.Charge(Price, token).ConfigureAwait(false);
            }
            else if (payment as Cash is { } cash)
            {
                throw new PaymentException(nameof(cash));
            }
            OnChanged?.Invoke(this, count);
            bool Check(Item item) => item.Fits<Box>(count);
            foreach (Item item in _items.Where(Check))
            {
                Log.Write($"{item.Name}: {Format(item)}");
            }
            try { Close(); }
            catch (ShopException error) when (error.Code == Codes.Closed) { }
            return Receipt.For<TPayment>(payment) switch
            {
                Receipt r => r,
                _ => default(Receipt),
            };
        }

        void IPriced.Discount(Rate rate) => Apply(rate, Round);

        private static string Format(Item item) => item.ToString();

        protected virtual void Dispose() { }
    }

    public record Item(string Name, decimal Price) : IComparable<Item>
    {
        public int CompareTo(Item? other) => Name.CompareTo(other?.Name);
    }

    public record struct Point(int X, int Y);

    internal static class OrderExtensions
    {
        public static bool IsPaid(this Order order) => order.Status == Status.Paid;
    }
}
