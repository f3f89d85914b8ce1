<?php
declare(strict_types=1);

namespace App\Billing;

use App\Models\Invoice;
use App\Contracts\{Payable, Refundable as CanRefund};
use Illuminate\Support\Collection as Items;
use function App\Helpers\money;
use const App\Helpers\VAT;
use Throwable, Psr\Log\LoggerInterface;

require_once __DIR__ . '/bootstrap.php';
require 'config.php';

const RETRIES = 3;

interface Gateway extends Payable, \Countable
{
    public const TIMEOUT = 10;
    public function charge(Invoice $invoice, int $amount): Receipt;
}

trait Logs
{
    protected ?LoggerInterface $logger = null;

    protected function log(string $line): void
    {
        $this->logger?->info($line);
    }
}

enum Status: string implements HasLabel
{
    case Open = 'open';
    case Paid = 'paid';

    public function label(): string
    {
        return match ($this) {
            self::Open => ucfirst($this->value),
            Status::Paid => Label::forPaid(),
        };
    }
}

#[Service(priority: 1)]
abstract class Biller extends Base\Worker implements Gateway, CanRefund
{
    use Logs, Macroable;

    private static int $count = 0;
    public readonly array $items;

    public function __construct(private Items $queue, protected Clock|null $clock = null)
    {
        parent::__construct($queue);
        $this->items = $queue->map(fn (Invoice $i) => $this->price($i))->all();
    }

    #[Route('/charge')]
    public function charge(Invoice $invoice, int $amount): Receipt
    {
        try {
            $total = money($amount) * VAT;
            $receipt = new Receipt($invoice, $total, static::TIMEOUT);
            if ($invoice instanceof Draft) {
                throw new \InvalidArgumentException('draft');
            }
            return tap($receipt, function ($r) use ($invoice) {
                self::$count++;
                Event::dispatch(new Charged($r));
                \App\Helpers\audit($invoice);
            });
        } catch (GatewayError | Throwable $error) {
            $this->log($error->getMessage());
            return Receipt::empty();
        }
    }

    abstract protected function price(Invoice $invoice): int;

    public static function make(): static
    {
        return new static(collect(), Biller::class);
    }
}

function settle(Gateway $gateway, callable $done): void
{
    array_map('App\Billing\note', [RETRIES]);
    $done($gateway->charge(new Invoice(), 1));
    $handler = [Biller::class, 'make'];
    function nested(): void {}
}

return settle(...);
